package web_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// A call may bring its limits along: RL.LIMIT decides, and the answer is a verdict.
func TestLimitsInTheCall(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	a := r.post("/v1/check", `{"limits":[{"key":"u","limit":5,"period":"1h","cost":2}]}`).ok(t, 200)
	require.JSONEq(t, `{"allowed":true,"limit":5,"remaining":3,"retry_after_ms":0,"reset_after_ms":1440000,"delay_ms":0,"name":"1","reason":"ok","hold":null,
		"version":0,"applied":1,"limits":[{"name":"1","allowed":true,"limit":5,"remaining":3,"retry_after_ms":0,"reset_after_ms":1440000,"delay_ms":0,
		"cost":2,"mode":"enforce","status":200,"window_ms":3600000}],"soft":[],"degraded":false}`, a.body)
	require.Equal(t, `"1";r=3;t=1440`, a.header.Get("RateLimit"))
	require.Equal(t, `"1";q=5;w=3600`, a.header.Get("RateLimit-Policy"))
	reset, err := strconv.ParseInt(a.header.Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, time.Now().Unix()+1440, reset, 300)
	const chain = `"limits":[{"key":"a","limit":5,"period":3600,"algorithm":"fixed","align":"first"},{"key":"b","limit":1,"period":"1d","burst":2,"cost":2}]`
	r.post("/v1/limits:check", `{`+chain+`,"sync":false,"fail":"closed"}`).ok(t, 200)
	require.Equal(t, int64(3), r.run("RL.LIMIT", "a", "5", "3600", "ALGORITHM", "fixed", "ALIGN", "first", "PEEK").Field("remaining").Int)
	a = r.post("/v1/check", `{`+chain+`,"respond":"status"}`).ok(t, 429)
	require.Equal(t, []any{"2"}, a.decode(t)["violated-policies"])
	require.Equal(t, "2", a.decode(t)["verdict"].(map[string]any)["name"])
	require.NotEmpty(t, a.header.Get("Retry-After"))
	r.post("/v1/check", `{"limits":[{"key":"b","limit":1,"period":"1d","burst":2,"cost":9}],"respond":"status"}`).ok(t, 403)
	require.Equal(t, true, r.post("/v1/check", `{"limits":[{"key":"b","limit":1,"period":"1d","burst":2}],"force":true}`).ok(t, 200).decode(t)["allowed"])
	require.Equal(t, true, r.post("/v1/check", `{"limits":[{"key":"b","limit":1,"period":"1d","burst":2}],"debt":9,"peek":true}`).ok(t, 200).decode(t)["allowed"])
	r.post("/v1/check", `{"limits":[{"key":"w","limit":1,"period":"1m"}],"wait_ms":60000}`).ok(t, 200)
	delayed := r.post("/v1/check", `{"limits":[{"key":"w","limit":1,"period":"1m"}],"wait_ms":60000}`).ok(t, 200)
	require.NotContains(t, delayed.body, `"delay_ms":0,"name"`)

	many := strings.Repeat(`{"key":"k","limit":1,"period":1},`, 32) + `{"key":"k","limit":1,"period":1}`
	for body, detail := range map[string]string{
		`{"limits":[]}`:                                                             "at least one limit",
		`{"limits":[{"limit":5,"period":"1h"}]}`:                                    "key is missing",
		`{"limits":[{"key":"u","limit":5}]}`:                                        "period is missing",
		`{"limits":[{"key":"u","limit":5,"period":"1x"}]}`:                          "period '1x'",
		`{"limits":[{"key":"u","limit":5,"period":"1h","keys":"x"}]}`:               `unknown field \"keys\"`,
		`{"limits":[` + many + `]}`:                                                 "at most 32",
		`{"limits":[{"key":"u","limit":5,"period":"1h"}],"policy":"p"}`:             "cannot have policy",
		`{"limits":[{"key":"u","limit":5,"period":"1h"}],"id":"x"}`:                 "cannot have policy",
		`{"limits":[{"key":"u","limit":5,"period":"1h"}],"peek":true,"force":true}`: "exclude each other",
		`{"policy":"p","debt":3}`:                                                   "need limits in the call",
	} {
		require.Contains(t, r.post("/v1/check", body).ok(t, 400).body, detail)
	}
	r.post("/v1/check", `{"limits":[{"key":"u","limit":5,"period":"1h"}]}`, "Idempotency-Key", "x").ok(t, 400)
	r.post("/v1/reserve", `{"limits":[{"key":"u","limit":5,"period":"1h"}]}`).ok(t, 400)
}

func TestSlots(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	require.JSONEq(t, `{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":0,"ttl_ms":30000,"id":"job-1","degraded":false}`,
		r.post("/v1/acquire", `{"key":"enc","limit":2,"ttl":"30s","id":"job-1"}`).ok(t, 200).body)
	a := r.post("/v1/acquire", `{"key":"enc","limit":2,"ttl":"30s","cost":1}`).ok(t, 200)
	require.Len(t, a.decode(t)["id"], 32)
	a = r.post("/v1/acquire", `{"key":"enc","limit":2,"ttl":"30s"}`).ok(t, 200)
	require.Equal(t, false, a.decode(t)["allowed"])
	require.Nil(t, a.decode(t)["id"])
	require.JSONEq(t, `{"extended":true}`, r.post("/v1/extend", `{"key":"enc","id":"job-1","ttl":"5m"}`).ok(t, 200).body)
	require.JSONEq(t, `{"released":true}`, r.post("/v1/release", `{"key":"enc","id":"job-1"}`).ok(t, 200).body)
	require.JSONEq(t, `{"released":false}`, r.post("/v1/release", `{"key":"enc","id":"job-1"}`).ok(t, 200).body)
	for path, bodies := range map[string][]string{
		"/v1/acquire": {`{}`, `{"key":"k"}`, `{"key":"k","limit":1}`, `{"key":"k","limit":1,"ttl":"x"}`, `{"key":"k","limit":"1","ttl":"1s"}`},
		"/v1/release": {`{}`, `{"key":"k"}`, `{"key":"k","id":"x","ttl":"1s"}`},
		"/v1/extend":  {`{"key":"k","id":"x"}`},
	} {
		for _, body := range bodies {
			r.post(path, body).ok(t, 400)
		}
	}
}
