package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/envoy"
)

// gateway asks a server as Envoy does.
type gateway struct {
	*rig
	rls.RateLimitServiceClient
	asked int
}

func newGateway(t *testing.T, r *rig) *gateway {
	front := envoy.New(envoy.Config{Decider: r.caller})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go front.Serve(ln)
	c, err := grpc.NewClient("passthrough:"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, front.Shutdown(context.Background()))
	})
	return &gateway{rig: r, RateLimitServiceClient: rls.NewRateLimitServiceClient(c)}
}

// question is a call as Envoy makes it; ok is false for one that it cannot make.
func (g *gateway) question(c *equalCall) (q *rls.RateLimitRequest, ok bool) {
	q = &rls.RateLimitRequest{Domain: c.policy}
	if c.verb == "DESCRIPTORS" {
		q.HitsAddend = uint32(c.cost)
		for _, d := range c.asked {
			one := new(ratelimit.RateLimitDescriptor)
			for _, e := range d.entries {
				one.Entries = append(one.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e[0], Value: e[1]})
			}
			if d.hits >= 0 {
				one.HitsAddend = wrapperspb.UInt64(uint64(d.hits))
			}
			if d.limit {
				one.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: typev3.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(90)}
			}
			q.Descriptors = append(q.Descriptors, one)
		}
		return q, true
	}
	// Limits of concurrent calls are not for it, and hits have a bound.
	if c.verb != "CHECK" || c.id != "" || c.option != "" || len(c.attributes) == 0 || c.policy == "runs" || c.cost >= 1<<62 {
		return nil, false
	}
	d := new(ratelimit.RateLimitDescriptor)
	for key, value := range c.attributes {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: fmt.Sprint(value)})
	}
	if c.cost >= 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(c.cost))
	}
	q.Descriptors = append(q.Descriptors, d)
	return q, true
}

// ask makes a call, and demands what another server has replied over the Redis
// protocol. It reports whether it could.
func (g *gateway) ask(w *wanted) bool {
	q, ok := g.question(w.call)
	if !ok {
		g.run(w.call.args()...)
		return false
	}
	g.asked++
	a, err := g.ShouldRateLimit(context.Background(), q)
	about := fmt.Sprint(w.call.args(), a, err)
	if w.code == "NOPOLICY" {
		require.Equal(w.t, codes.NotFound, status.Code(err), about)
		return true
	}
	require.NoError(w.t, err, about)
	told := map[string]string{}
	for _, h := range a.ResponseHeadersToAdd {
		told[h.Key] = h.Value
	}
	if w.json == nil { // what its client may have caused denies it
		require.Equal(w.t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode, about)
		require.Equal(w.t, "ERR", w.code)
		require.Equal(w.t, w.text, decodeJSON(w.t, a.RawBody)["detail"], about)
		require.Len(w.t, a.Statuses, len(q.Descriptors))
		return true
	}
	r := w.ruling(q)
	require.Len(w.t, a.Statuses, len(r.statuses), about)
	var violated []any
	for i, want := range r.statuses {
		got := a.Statuses[i]
		require.Equal(w.t, code(want.over), got.Code, about)
		left := want.left
		if want.over {
			left = 0
		}
		require.Equal(w.t, left, int64(got.LimitRemaining), about)
		require.Equal(w.t, want.limited, got.CurrentLimit != nil, about)
		if !want.limited {
			continue
		}
		require.Equal(w.t, want.limit, int64(got.CurrentLimit.RequestsPerUnit), about)
		require.Equal(w.t, want.window, windowOf(got.CurrentLimit), about)
		require.Equal(w.t, want.limitName, got.CurrentLimit.Name, about)
		require.Equal(w.t, (want.reset+999)/1000, got.DurationUntilReset.GetSeconds(), about)
		require.Zero(w.t, got.DurationUntilReset.GetNanos(), about)
		if want.over {
			violated = append(violated, want.name)
		}
	}
	require.Equal(w.t, code(r.over), a.OverallCode, about)
	limits, policies, retry := r.fields()
	require.Equal(w.t, limits, told["ratelimit"], about)
	require.Equal(w.t, policies, told["ratelimit-policy"], about)
	w.sameWait(r.over, retry, told["retry-after"])
	metadata := a.DynamicMetadata.AsMap()
	if r.over {
		p := decodeJSON(w.t, a.RawBody)
		if violated == nil {
			require.NotContains(w.t, p, "violated-policies", about)
		} else {
			require.Equal(w.t, violated, p["violated-policies"], about)
		}
		require.Equal(w.t, r.reason, metadata["reason"], about)
		require.Equal(w.t, w.call.policy, metadata["policy"], about)
		require.Equal(w.t, false, metadata["degraded"], about)
		require.Equal(w.t, w.reply.Field("version").Int, int64(metadata["version"].(float64)), about)
	} else {
		require.Empty(w.t, a.RawBody, about)
	}
	require.Equal(w.t, r.metadata(), metadata["metadata"], about)
	return true
}

func code(over bool) rls.RateLimitResponse_Code {
	if over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

// windowOf is the window of a limit, in ms, 0 for none.
func windowOf(l *rls.RateLimitResponse_RateLimit) int64 {
	return unitMS[strings.ToLower(l.Unit.String())] * int64(max(1, l.UnitMultiplier.GetValue()))
}

var unitMS = map[string]int64{"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 7 * 86_400_000, "month": 30 * 86_400_000, "year": 365 * 86_400_000}

// ruling is the expected answer to Envoy.
type ruling struct {
	over     bool
	reason   string
	binding  int // -1 for none
	statuses []ruled
}

// ruled is what is said of one descriptor.
type ruled struct {
	over, limited, shadow bool
	name, limitName       string
	limit, window         int64
	left, reset, retry    int64
	metadata              string
}

// ruling returns the expected answer to a question. For a check it is that of its one
// descriptor: the denying limit with the longest wait, else the one with the least left.
func (w *wanted) ruling(q *rls.RateLimitRequest) *ruling {
	text := func(r *resp.Reply, name string) string { return r.Field(name).Str }
	number := func(r *resp.Reply, name string) int64 { return r.Field(name).Int }
	last := func(i int) string {
		e := q.Descriptors[i].Entries
		return e[len(e)-1].Key
	}
	if w.call.verb == "DESCRIPTORS" {
		r := &ruling{over: text(&w.reply, "code") == "over_limit", reason: text(&w.reply, "reason"), binding: int(number(&w.reply, "binding"))}
		list := w.reply.Field("descriptors").Elems
		for i := range list {
			d := &list[i]
			s := ruled{over: text(d, "code") == "over_limit", limit: number(d, "limit"), left: number(d, "remaining"), reset: number(d, "reset_ms"),
				retry: number(d, "retry_after_ms"), limitName: text(d, "name"), metadata: text(d, "metadata")}
			s.limited = s.limit >= 0
			s.window = unitMS[text(d, "unit")] * number(d, "multiplier")
			if s.name = s.limitName; s.name == "" {
				s.name = last(i)
			}
			flags := d.Field("flags").Elems
			s.shadow = slices.ContainsFunc(flags, func(f resp.Reply) bool { return f.Str == "shadow" })
			r.statuses = append(r.statuses, s)
		}
		return r
	}
	r := &ruling{over: number(&w.reply, "allowed") == 0, reason: w.reason(), binding: -1}
	var stands *resp.Reply
	limits := w.reply.Field("limits").Elems
	for i := range limits {
		l := &limits[i]
		if text(l, "mode") != "enforce" {
			continue
		}
		wait := func(l *resp.Reply) uint64 { return uint64(number(l, "retry_after_ms")) } // -1 is the longest
		denies := func(l *resp.Reply) bool { return number(l, "allowed") == 0 }
		switch {
		case stands == nil:
		case denies(stands) != denies(l):
			if denies(stands) {
				continue
			}
		case denies(l) && wait(l) <= wait(stands), !denies(l) && number(l, "remaining") >= number(stands, "remaining"):
			continue
		}
		stands = l
	}
	s := ruled{over: r.over}
	switch {
	case w.reason() == "allow":
		s.left = 1<<32 - 1
	case w.reason() == "deny":
		r.binding, s.retry = 0, -1
	case stands != nil:
		s.limited, s.over = true, number(stands, "allowed") == 0
		s.name = text(stands, "name")
		s.limitName, s.limit, s.window = s.name, number(stands, "limit"), number(stands, "window_ms")
		if w.call.policy == "month" { // Envoy has no calendar
			s.window = unitMS["day"] * map[string]int64{"day": 1, "month": 30, "quarter": 90}[s.name]
		}
		if s.window%1000 != 0 { // Envoy has whole seconds
			s.window = 0
		}
		s.left, s.reset, s.retry = min(max(0, number(stands, "remaining")), 1<<32-1), max(0, number(stands, "reset_after_ms")), number(stands, "retry_after_ms")
		r.binding = 0
	}
	r.statuses = append(r.statuses, s)
	return r
}

// fields are the header fields RateLimit and RateLimit-Policy, and in how many ms a
// call may come again, -1 for never.
func (r *ruling) fields() (limits, policies string, retry int64) {
	for i := range r.statuses {
		if s := &r.statuses[i]; s.over && retry >= 0 {
			retry = max(retry, s.retry)
			if s.retry < 0 {
				retry = -1
			}
		}
	}
	if r.binding < 0 || !r.statuses[r.binding].limited {
		return "", "", retry
	}
	var left, quotas []string
	add := func(s *ruled) {
		quota := strconv.Quote(s.name) + ";q=" + strconv.FormatInt(s.limit, 10)
		if s.window > 0 {
			quota += ";w=" + strconv.FormatInt(s.window/1000, 10)
		}
		rest, wait := strconv.Quote(s.name)+";r="+strconv.FormatInt(s.left, 10), s.reset
		if s.over {
			wait = s.retry
		}
		if wait >= 0 {
			rest += ";t=" + strconv.FormatInt((wait+999)/1000, 10)
		}
		left, quotas = append(left, rest), append(quotas, quota)
	}
	add(&r.statuses[r.binding])
	for i := range r.statuses {
		s := &r.statuses[i]
		if i != r.binding && s.limited && !s.shadow {
			add(s)
		}
	}
	return strings.Join(left, ", "), strings.Join(quotas, ", "), retry
}

// metadata is that of the rules that were passed, nil for none.
func (r *ruling) metadata() any {
	var all []any
	for i := range r.statuses {
		if text := r.statuses[i].metadata; text != "" {
			var m any
			if json.Unmarshal([]byte(text), &m) == nil {
				all = append(all, m)
			}
		}
	}
	if all == nil {
		return nil
	}
	return all
}
