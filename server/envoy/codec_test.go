package envoy

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// FuzzRequest: what generated code takes for a request is the same here, and what it
// refuses is refused, but for texts that are no UTF-8.
func FuzzRequest(f *testing.F) {
	whole, err := proto.Marshal(&rls.RateLimitRequest{Domain: "edge", HitsAddend: 3, Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "ip", Value: "1"}, {Key: "user"}}, HitsAddend: wrapperspb.UInt64(0), IsNegativeHits: true},
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "a", Value: "b"}}, HitsAddend: wrapperspb.UInt64(math.MaxUint64),
			Limit: &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_DAY, UnitMultiplier: wrapperspb.UInt32(9)}},
	}})
	require.NoError(f, err)
	f.Add(whole)
	f.Add([]byte("\x0a\x02\xff\xfe"))
	f.Add([]byte("\x12\x04\x12\x02\x08\x05\x12\x08\x12\x00\x12\x02\x10\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := new(exchange)
		got := x.parse(b)
		q := new(rls.RateLimitRequest)
		if err := proto.Unmarshal(b, q); err != nil {
			return // perhaps since a text is no UTF-8
		}
		want := verdict.Descriptors{Domain: q.Domain, Hits: q.HitsAddend}
		many := len(q.Descriptors) > policy.MaxDescriptors
		for _, d := range q.Descriptors {
			many = many || len(d.Entries) > policy.MaxEntries
			one := verdict.Descriptor{Entries: []verdict.Attribute{}}
			for _, e := range d.Entries {
				one.Entries = append(one.Entries, verdict.Attribute{Name: e.Key, Value: e.Value[:min(len(e.Value), policy.MaxValue)]})
			}
			if d.Limit != nil {
				one.Limit = &verdict.RateLimit{Requests: d.Limit.RequestsPerUnit, Unit: units[int32(d.Limit.Unit)]}
				if d.Limit.UnitMultiplier != nil {
					one.Limit.Multiplier = d.Limit.UnitMultiplier.Value
				}
			}
			if one.HasHits = d.HitsAddend != nil; one.HasHits {
				one.Hits = int64(min(d.HitsAddend.Value, math.MaxInt64))
			}
			if d.IsNegativeHits {
				if !one.HasHits {
					one.HasHits, one.Hits = true, int64(max(1, q.HitsAddend))
				}
				one.Hits = -one.Hits
			}
			want.Descriptors = append(want.Descriptors, one)
		}
		if many {
			require.Error(t, got)
			return
		}
		require.NoError(t, got)
		require.Equal(t, want.Domain, x.asked.Domain)
		require.Equal(t, want.Hits, x.asked.Hits)
		require.Len(t, x.asked.Descriptors, len(want.Descriptors))
		for i, d := range x.asked.Descriptors {
			require.Equal(t, len(want.Descriptors[i].Entries), len(d.Entries))
			for j := range d.Entries {
				require.Equal(t, want.Descriptors[i].Entries[j], d.Entries[j])
			}
			d.Entries, want.Descriptors[i].Entries = nil, nil
			require.Equal(t, want.Descriptors[i], d)
		}
	})
}

// open is a Decider that lets everybody in, and runs nothing.
type open struct{ Decider }

func (open) Open(access.Port, access.Right, bool) bool { return true }

// A call that waited past its deadline before it was read is not run.
func TestLateCallsAreNotRun(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
	defer cancel()
	// The deadline is over, and the context does not know yet.
	late := func() time.Time { return time.Now().Add(time.Hour) }
	s := &service{decider: open{}, now: late, asked: &fronts.New().GRPC} // open would panic
	_, err := s.shouldRateLimit(ctx, func(any) error { return nil })
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
}

// Envoy cuts fractions of seconds, and clients would come too early.
func TestTimesAreRoundedUp(t *testing.T) {
	for ms, want := range map[int64]int64{1: 1, 999: 1, 1000: 1, 1001: 2, 37_900: 38} {
		s := new(rls.RateLimitResponse_DescriptorStatus)
		require.NoError(t, proto.Unmarshal(appendStatus(nil, &verdict.Status{Limited: true, ResetMS: ms}), s))
		require.Equal(t, want, s.DurationUntilReset.Seconds)
		require.Zero(t, s.DurationUntilReset.Nanos)
	}
}

// A message of any length inside another has its length before it.
func TestNestedMessages(t *testing.T) {
	for n := range 40_000 {
		if n > 300 && n < 16_000 {
			continue
		}
		b, at := begin([]byte("before"), responseStatuses)
		inner := strings.Repeat("0123456789", n/10+1)[:n]
		b = end(append(b, inner...), at)
		var got []string
		require.NoError(t, each(b[len("before"):], func(f field) error {
			got = append(got, string(f.b))
			return nil
		}))
		require.Equal(t, []string{inner}, got)
		if n > 17_000 {
			break
		}
	}
}
