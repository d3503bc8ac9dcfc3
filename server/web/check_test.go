package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

func TestCheck(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("pay", "{limits: {user: {by: user, rate: 5/h}, all: {rate: 1000/h}}}")
	began := time.Now()
	a := r.post("/v1/check", `{"policy": "pay", "attributes": {"user": "eve"}, "cost": 2}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, `"user";q=5;w=3600, "all";q=1000;w=3600`, a.header.Get("RateLimit-Policy"))
	require.Equal(t, `"user";r=3;t=1440, "all";r=998;t=8`, a.header.Get("RateLimit"))
	require.Equal(t, "5", a.header.Get("X-RateLimit-Limit"))
	require.Equal(t, "3", a.header.Get("X-RateLimit-Remaining"))
	reset, err := strconv.ParseInt(a.header.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, reset, began.Add(24*time.Minute).Unix())
	require.LessOrEqual(t, reset, time.Now().Add(24*time.Minute).Unix()+1)
	require.Empty(t, a.header.Get("Retry-After"))
	version := r.run("RL.CHECK", "pay", "user", "u", "PEEK")
	require.JSONEq(t, fmt.Sprintf(`{"allowed":true,"limit":5,"remaining":3,"retry_after_ms":0,"reset_after_ms":1440000,"delay_ms":0,
		"name":"user","reason":"ok","hold":null,"version":%d,"applied":2,"limits":[
		{"name":"user","allowed":true,"limit":5,"remaining":3,"retry_after_ms":0,"reset_after_ms":1440000,"delay_ms":0,"cost":2,"mode":"enforce","status":200,"window_ms":3600000},
		{"name":"all","allowed":true,"limit":1000,"remaining":998,"retry_after_ms":0,"reset_after_ms":7200,"delay_ms":0,"cost":2,"mode":"enforce","status":200,"window_ms":3600000}],
		"soft":[],"degraded":false}`, version.Field("version").Int), a.body)

	// Denied: the same status, unless it is asked for.
	a = r.post("/v1/check", `{"policy":"pay","attributes":{"user":"eve"},"cost":4}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.body, `"allowed":false`)
	wait := a.header.Get("Retry-After")
	seconds, err := strconv.Atoi(wait)
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, 720)
	require.LessOrEqual(t, seconds, 793)
	a = r.post("/v1/check", `{"policy":"pay","attributes":{"user":"eve"},"cost":4,"respond":"status"}`)
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	p := a.decode(t)
	require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", p["type"])
	require.Equal(t, []any{"user"}, p["violated-policies"])
	require.Equal(t, false, p["verdict"].(map[string]any)["allowed"])
	require.Regexp(t, `^limit user admits this call in \d+ ms$`, p["detail"])

	// If no wait helps, there is no Retry-After.
	a = r.post("/v1/check", `{"policy":"pay","attributes":{"user":"eve"},"cost":6,"respond":"status"}`)
	require.Equal(t, http.StatusForbidden, a.status)
	require.Empty(t, a.header.Get("Retry-After"))
	require.Equal(t, `"user";r=3, "all";r=998;t=8`, a.header.Get("RateLimit"))

	// PEEK answers what the call would get and changes nothing; a cost of 0 costs nothing.
	for body, left := range map[string]int{`"peek":true`: 2, `"cost":0`: 3} {
		for range 2 {
			require.Contains(t, r.post("/v1/check", `{"policy":"pay","attributes":{"user":"eve"},`+body+`}`).body, fmt.Sprintf(`"remaining":%d`, left))
		}
	}
}

// The status is that of the limit that denies, and 403 for a list.
func TestStatusOfVerdicts(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{deny: [{user: eve}], limits: {user: {by: user, rate: 1/h, missing: deny}, busy: {rate: 1/h, status: 503, when: {kind: job}}}}")
	ask := func(want int, attributes, kind string) {
		t.Helper()
		a := r.post("/v1/check", `{"policy":"p","respond":"status","attributes":`+attributes+`}`)
		require.Equal(t, want, a.status, a.body)
		if want != 200 {
			require.Equal(t, kind, a.decode(t)["type"])
		}
	}
	const quota, capacity = "https://iana.org/assignments/http-problem-types#quota-exceeded", "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	ask(403, `{"user":"eve"}`, "about:blank")
	ask(403, `{}`, "about:blank") // it is missing
	ask(200, `{"user":"a","kind":"job"}`, "")
	ask(503, `{"user":"b","kind":"job"}`, capacity)
	ask(200, `{"user":"b"}`, "")
	ask(429, `{"user":"b"}`, quota)
}

func TestHolds(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("llm", "{limits: {tokens: {by: user, rate: 100/h, cost: tokens}}}")
	a := r.post("/v1/reserve", `{"policy":"llm","attributes":{"user":"eve","tokens":40},"ttl":"30s"}`)
	require.Equal(t, 200, a.status, a.body)
	v := a.decode(t)
	hold := v["hold"].(string)
	require.True(t, strings.HasPrefix(hold, "llm;"), hold)
	a = r.post("/v1/commit", fmt.Sprintf(`{"hold":%q,"attributes":{"tokens":110}}`, hold))
	require.Equal(t, 200, a.status, a.body)
	v = a.decode(t)
	require.Equal(t, "committed", v["reason"])
	require.Equal(t, "10", fmt.Sprint(v["over"]))
	require.Equal(t, `"tokens";r=0;t=3960`, a.header.Get("RateLimit"))
	a = r.post("/v1/cancel", fmt.Sprintf(`{"hold":%q}`, hold))
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "committed", a.decode(t)["reason"], "the first settlement stands")
	a = r.post("/v1/cancel", `{"hold":"llm;x"}`)
	require.Equal(t, 404, a.status)
	require.Equal(t, "NOHOLD", a.decode(t)["code"])
}

// A call that is made again by its name is charged once.
func TestIdempotencyKey(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {user: {by: user, rate: 5/h}}}")
	const call = `{"policy":"p","attributes":{"user":"eve"}}`
	for i, name := range []string{`"8e03 \"x"`, `"8e03 \"x"`} {
		a := r.post("/v1/check", call, "Idempotency-Key", name)
		require.Equal(t, 200, a.status, a.body)
		require.Contains(t, a.body, `"remaining":4`)
		require.Contains(t, a.header.Get("RateLimit"), `"user";r=4;t=`)
		require.Equal(t, []string{`"user";q=5;w=3600`, `"user";q=5`}[i], a.header.Get("RateLimit-Policy"))
	}
	require.Contains(t, r.post("/v1/check", `{"policy":"p","attributes":{"user":"eve"},"id":"8e03 \"x"}`).body, `"remaining":4`, "the same name")
	require.Contains(t, r.post("/v1/check", call, "Idempotency-Key", `token-1`).body, `"remaining":3`)
	require.Contains(t, r.post("/v1/check", call, "Idempotency-Key", `"token-1"`).body, `"remaining":3`, "with quotes or without")
	a := r.post("/v1/check", `{"policy":"p","attributes":{"user":"bob"}}`, "Idempotency-Key", `token-1`)
	require.Equal(t, 422, a.status, a.body)
	require.Equal(t, "IDCONFLICT", a.decode(t)["code"])
	for _, name := range []string{`"x`, `a b`, `""`, ``, "\"a\tb\"", `"a" `, `a,b`, `"a";b=1`, strings.Repeat("x", 129)} {
		a := r.post("/v1/check", call, "Idempotency-Key", name)
		if name == `"a" ` { // net/http trims it
			require.Equal(t, 200, a.status)
			continue
		}
		require.Equal(t, 400, a.status, name)
	}
	require.Equal(t, 400, r.request("POST", "/v1/check", call, "Content-Type", "application/json", "Idempotency-Key", "a", "Idempotency-Key", "b").status)
	require.Equal(t, 400, r.post("/v1/check", `{"policy":"p","id":"a"}`, "Idempotency-Key", "b").status)
	require.Equal(t, 400, r.post("/v1/check:batch", `{"checks":[]}`, "Idempotency-Key", "b").status)
}

// The fields have at most eight limits, and none in shadow.
func TestHeadersShowEnforcedLimits(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	var limits []string
	for i := range 14 {
		limits = append(limits, fmt.Sprintf("l%d: {rate: %d/h}", i, 100+i))
	}
	r.policy("p", "{limits: {seen: {rate: 1/h, mode: shadow}, soft: {rate: 1/h, mode: soft}, "+strings.Join(limits, ", ")+"}}")
	a := r.post("/v1/check", `{"policy":"p"}`)
	require.Equal(t, 200, a.status)
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		value := a.header.Get(name)
		require.Equal(t, 7, strings.Count(value, ", "), value)
		require.True(t, strings.HasPrefix(value, `"l0";`), value)
		require.NotRegexp(t, "seen|soft", value)
	}
}

// RateLimit-Policy has windows of whole seconds.
func TestWindowsInRateLimitPolicy(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	n := 0
	for limits, want := range map[string]string{
		"u: {rate: 10/s burst 50}":          `"u";q=50;w=5`,
		"u: {algorithm: fixed, rate: 5/2s}": `"u";q=5;w=2`,
		"u: {rate: 5/500ms}":                `"u";q=5`,
		"u: {rate: 5/1500ms}":               `"u";q=5`,
		"u: {rate: 3/s burst 7}":            `"u";q=7`,
		"u: {concurrent: 3}":                `"u";q=3`,
		"u: {rate: blocked}":                `"u";q=0`,
	} {
		n++
		name := fmt.Sprintf("p%d", n)
		r.policy(name, "{limits: {"+limits+"}}")
		require.Equal(t, want, r.post("/v1/check", `{"policy":"`+name+`"}`).header.Get("RateLimit-Policy"), limits)
	}
}

// A window that ends on a second is not shown as ending a second later, however late in a
// millisecond the call comes.
func TestResetIsNotASecondLate(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {u: {algorithm: fixed, rate: 1000/m}}}")
	for range 50 {
		reset, err := strconv.ParseInt(r.post("/v1/check", `{"policy":"p"}`).header.Get("X-RateLimit-Reset"), 10, 64)
		require.NoError(t, err)
		require.Zero(t, reset%60, reset)
	}
}
