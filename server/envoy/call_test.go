package envoy_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
)

// edge is a policy in Envoy's dialect.
const edge = `{descriptors: [
	{key: ip, rate_limit: {unit: hour, requests_per_unit: 3, name: per_ip}},
	{key: user, rate_limit: {unit: minute, requests_per_unit: 100}},
	{key: tokens, rate_limit: {unit: day, requests_per_unit: 10}},
	{key: free, rate_limit: {unlimited: true}},
]}`

// midday is noon of a day.
const midday = 1_800_014_400_000_000_000

func newEdge(t testing.TB) *rig {
	clock, _ := engine.NewManualClock(midday)
	r := newRig(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}, envoy.Config{})
	r.policy("edge", edge)
	return r
}

func fields(list []*corev3.HeaderValue) map[string]string {
	m := map[string]string{}
	for _, h := range list {
		m[h.Key] = h.Value
	}
	return m
}

// Everything of an answer, for a request that passes and one that does not.
func TestShouldRateLimit(t *testing.T) {
	r := newEdge(t)
	q := request("edge", []string{"ip", "203.0.113.1"}, []string{"other", "x"}, []string{"user", "eve"}, []string{"free", "1"})
	for left := range 3 {
		a, err := r.ShouldRateLimit(patient(t), q)
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OK, a.OverallCode)
		require.Len(t, a.Statuses, 4, "one for each descriptor, in their order")
		ip, user := a.Statuses[0], a.Statuses[2]
		require.Equal(t, rls.RateLimitResponse_OK, ip.Code)
		require.Equal(t, uint32(2-left), ip.LimitRemaining)
		require.Equal(t, "per_ip", ip.CurrentLimit.Name)
		require.Equal(t, uint32(3), ip.CurrentLimit.RequestsPerUnit)
		require.Equal(t, rls.RateLimitResponse_RateLimit_HOUR, ip.CurrentLimit.Unit)
		require.Nil(t, ip.CurrentLimit.UnitMultiplier)
		require.Equal(t, int64(3600), ip.DurationUntilReset.Seconds)
		require.Equal(t, rls.RateLimitResponse_OK, a.Statuses[1].Code)
		require.Nil(t, a.Statuses[1].CurrentLimit, "no limit matches")
		require.Equal(t, uint32(99-left), user.LimitRemaining)
		require.Equal(t, rls.RateLimitResponse_RateLimit_MINUTE, user.CurrentLimit.Unit)
		require.Equal(t, uint32(4294967295), a.Statuses[3].LimitRemaining)
		require.Nil(t, a.Statuses[3].CurrentLimit)
		require.Equal(t, map[string]string{
			"ratelimit-policy": `"per_ip";q=3;w=3600, "user";q=100;w=60`,
			"ratelimit":        `"per_ip";r=` + strconv.Itoa(2-left) + `;t=3600, "user";r=` + strconv.Itoa(99-left) + ";t=60",
		}, fields(a.ResponseHeadersToAdd))
		require.Empty(t, a.RawBody)
		require.Nil(t, a.DynamicMetadata)
	}
	for range 3 { // the wait does not wobble
		a, err := r.ShouldRateLimit(patient(t), q)
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode)
		require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.Statuses[0].Code)
		require.Zero(t, a.Statuses[0].LimitRemaining)
		require.Equal(t, rls.RateLimitResponse_OK, a.Statuses[2].Code)
		h := fields(a.ResponseHeadersToAdd)
		wait, err := strconv.Atoi(h["retry-after"])
		require.NoError(t, err)
		require.True(t, wait >= 3600 && wait <= 3960, wait)
		require.True(t, strings.HasPrefix(h["ratelimit"], `"per_ip";r=0;t=3600, "user";`), h["ratelimit"])
		require.Equal(t, "no-store", h["cache-control"])
		require.Equal(t, "application/problem+json", h["content-type"])
		require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","violated-policies":["per_ip"]}`, string(a.RawBody))
		told, err := json.Marshal(a.DynamicMetadata.AsMap())
		require.NoError(t, err)
		require.JSONEq(t, `{"policy":"edge","version":1,"reason":"limit","degraded":false,"limit":"per_ip"}`, string(told))
	}
}

// Without a limit there is nothing for the header.
func TestUnmatchedHasNoHeaders(t *testing.T) {
	r := newEdge(t)
	for _, key := range []string{"other", "free"} {
		a, err := r.ShouldRateLimit(patient(t), request("edge", []string{key, "x"}))
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OK, a.OverallCode)
		require.Empty(t, a.ResponseHeadersToAdd)
	}
}

// Parts of a request beside its entries.
func TestHitsAndLimitsOfRequests(t *testing.T) {
	r := newEdge(t)
	ask := func(edit func(q *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor), pairs ...string) *rls.RateLimitResponse_DescriptorStatus {
		t.Helper()
		q := request("edge", pairs)
		edit(q, q.Descriptors[0])
		a, err := r.ShouldRateLimit(patient(t), q)
		require.NoError(t, err)
		require.Equal(t, a.OverallCode, a.Statuses[0].Code)
		return a.Statuses[0]
	}
	const ok, over = rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	hits := func(n uint64) func(q *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
		return func(_ *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(n) }
	}
	left := func(want uint32, code rls.RateLimitResponse_Code, s *rls.RateLimitResponse_DescriptorStatus) {
		t.Helper()
		require.Equal(t, code, s.Code)
		require.Equal(t, want, s.LimitRemaining)
	}
	// A late charge is never refused, and 0 hits of a descriptor are none: so a stream
	// is let through until its callers owe something.
	left(10, ok, ask(hits(0), "tokens", "a"))
	left(1, ok, ask(hits(9), "tokens", "a"))
	left(1, ok, ask(hits(0), "tokens", "a"))
	left(0, over, ask(hits(50), "tokens", "a"))
	left(0, over, ask(hits(0), "tokens", "a"))
	refund := func(q *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(52), true
	}
	left(3, ok, ask(refund, "tokens", "a"))
	// Of a request 0 is 1, and its hits are those of descriptors that have none.
	left(9, ok, ask(func(q *rls.RateLimitRequest, _ *ratelimit.RateLimitDescriptor) { q.HitsAddend = 0 }, "tokens", "b"))
	left(5, ok, ask(func(q *rls.RateLimitRequest, _ *ratelimit.RateLimitDescriptor) { q.HitsAddend = 4 }, "tokens", "b"))
	left(9, ok, ask(func(q *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
		q.HitsAddend, d.IsNegativeHits = 4, true
	}, "tokens", "b"))
	// A limit of the request's own is in place of the policy's.
	s := ask(func(_ *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
		d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typev3.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(90)}
	}, "tokens", "c")
	left(6, ok, s)
	require.Equal(t, rls.RateLimitResponse_RateLimit_SECOND, s.CurrentLimit.Unit)
	require.Equal(t, uint32(90), s.CurrentLimit.UnitMultiplier.Value)
	require.LessOrEqual(t, s.DurationUntilReset.Seconds, int64(90))
	require.Zero(t, s.DurationUntilReset.Nanos)
}

// Whatever a client has sent that becomes part of a descriptor, its request is
// decided: an error lets it pass, with failure_mode_deny false.
func TestValuesOfAnyBytes(t *testing.T) {
	r := newEdge(t)
	for i, value := range []string{"\x00\xff\xfe", strings.Repeat("x", 60<<10), "é\r\n", "", "{{", strings.Repeat("\xff", 4096)} {
		q := request("edge", []string{"ip", strconv.Itoa(i)})
		for range 3 {
			raw := appendRequest(nil, q, value)
			a, err := r.raw(patient(t), raw)
			require.NoError(t, err, "%.20q", value)
			require.Equal(t, rls.RateLimitResponse_OK, a.OverallCode)
		}
		a, err := r.raw(patient(t), appendRequest(nil, q, value))
		require.NoError(t, err)
		require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode)
	}
}

// A request that a policy cannot decide is denied, for the same reason.
func TestRequestsThatCannotBeDecided(t *testing.T) {
	r := newEdge(t)
	a, err := r.ShouldRateLimit(patient(t), request("edge", []string{"ip", "1"}, []string{strings.Repeat("k", 300), "v"}))
	require.NoError(t, err)
	require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.OverallCode)
	require.Len(t, a.Statuses, 2)
	require.Equal(t, rls.RateLimitResponse_OVER_LIMIT, a.Statuses[1].Code)
	require.Contains(t, string(a.RawBody), "256")
}

// A mistyped domain is an error, which Envoy counts, and not a limit without end; a
// call whose client has given up is not charged.
func TestErrors(t *testing.T) {
	r := newEdge(t)
	many := make([][]string, 65)
	for i := range many {
		many[i] = []string{"ip", "1"}
	}
	unit := request("edge", []string{"ip", "1"})
	unit.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7}
	for _, c := range []struct {
		want codes.Code
		q    *rls.RateLimitRequest
	}{
		{codes.NotFound, request("egde", []string{"ip", "203.0.113.1"})},
		{codes.InvalidArgument, request("", []string{"ip", "203.0.113.1"})},
		{codes.InvalidArgument, request("edge")},
		{codes.InvalidArgument, request("edge", []string{})},
		{codes.InvalidArgument, request("edge", many...)},
		{codes.InvalidArgument, request("edge", make([]string, 2*33))},
		{codes.InvalidArgument, unit},
	} {
		_, err := r.ShouldRateLimit(patient(t), c.q)
		require.Equal(t, c.want, status.Code(err), err)
	}
	require.Equal(t, uint64(1), r.server.UnknownPolicies())
	_, err := r.raw(patient(t), []byte("\x0a\xff\xff"))
	require.Equal(t, codes.InvalidArgument, status.Code(err), err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	for range 10 {
		_, err := r.ShouldRateLimit(ctx, request("edge", []string{"ip", "late"}))
		require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
	}
	a, err := r.ShouldRateLimit(patient(t), request("edge", []string{"ip", "late"}))
	require.NoError(t, err)
	require.Equal(t, uint32(2), a.Statuses[0].LimitRemaining)
}
