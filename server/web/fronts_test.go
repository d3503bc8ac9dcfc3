package web_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// Each request for a verdict is counted once, by what became of it.
func TestRequestsAreCounted(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{TrustedProxies: loopback})
	r.policy("p", "{limits: {all: {rate: 100/h}}}")
	r.policy("no", "{limits: {all: {rate: blocked}}}")
	r.policy("ip", "{limits: {ip: {by: ip, rate: 1/h}}}")
	r.policy("routes/r", "{else: deny, match: {/health: allow}}")
	const yes, no, unknown = `{"policy":"p"}`, `{"policy":"no"}`, `{"policy":"nosuch"}`
	r.post("/v1/check", yes)
	r.post("/v1/check", no)
	r.post("/v1/check", `{"policy":"no","respond":"status"}`)
	r.post("/v1/check", unknown)
	r.post("/v1/check", `{`)
	r.request("GET", "/v1/check", "")
	r.post("/v1/limits:check", `{"limits":[{"key":"k","limit":0,"period":1}]}`)
	r.post("/v1/check:batch", fmt.Sprintf(`{"checks":[%s,%s]}`, yes, yes))
	r.post("/v1/check:batch", fmt.Sprintf(`{"checks":[%s,%s]}`, no, yes))
	r.post("/v1/check:batch", fmt.Sprintf(`{"checks":[%s,%s,%s]}`, no, unknown, yes))
	r.post("/v1/acquire", `{"key":"l","limit":1,"ttl":"1m"}`)
	r.post("/v1/acquire", `{"key":"l","limit":1,"ttl":"1m"}`)
	r.request("GET", "/v1/openapi.yaml", "") // asks for no verdict
	for range 2 {
		r.request("GET", "/v1/auth403/ip", "", "X-Forwarded-For", "203.0.113.9")
	}
	r.request("GET", "/v1/auth/nosuch", "")
	r.request("GET", "/v1/auth", "")
	r.request("GET", "/v1/auth/routes:r", "", "X-Forwarded-Uri", "/health", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "h")
	r.request("GET", "/v1/auth/routes:r", "", "X-Forwarded-Uri", "/else", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "h")
	counted := map[string]string{}
	a := r.request("GET", "/metrics", "")
	for _, m := range regexp.MustCompile(`headgate_front_(?:requests_total|duration_seconds_count)\{front="(.*?)"(?:,result="(\w+)")?\} (\d+)`).FindAllStringSubmatch(a.body, -1) {
		counted[m[1]+" "+m[2]] = m[3]
	}
	require.Equal(t, map[string]string{
		"http allowed": "3", "http denied": "5", "http refused": "2", "http error": "2", "http ": "11",
		"forward-auth allowed": "2", "forward-auth denied": "2", "forward-auth refused": "1", "forward-auth error": "1", "forward-auth ": "6",
		"grpc allowed": "0", "grpc denied": "0", "grpc refused": "0", "grpc error": "0", "grpc ": "0",
	}, counted)
}
