package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func TestForwardAuth(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{TrustedProxies: loopback})
	r.policy("team/edge", "{limits: {ip: {by: ip, rate: 2/h}}}")
	ask := func(dialect, ip string) answer {
		return r.request("GET", "/v1/"+dialect+"/team:edge?policy=other&cost=5", "", "X-Forwarded-For", ip)
	}
	for i := range 2 {
		a := ask("auth", "203.0.113.1")
		require.Equal(t, 200, a.status, a.body)
		require.Empty(t, a.body)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Regexp(t, fmt.Sprintf(`^"ip";r=%d;t=\d+$`, 1-i), a.header.Get("RateLimit"))
	}
	a := ask("auth", "203.0.113.1")
	require.Equal(t, 429, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.Equal(t, []any{"ip"}, a.decode(t)["violated-policies"])
	require.NotEmpty(t, a.header.Get("Retry-After"))

	// nginx is answered 403, without a body, and with the same fields.
	a = ask("auth403", "203.0.113.1")
	require.Equal(t, 403, a.status)
	require.Empty(t, a.body)
	require.Equal(t, "0", a.header.Get("Content-Length"))
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Equal(t, `"ip";q=2;w=3600`, a.header.Get("RateLimit-Policy"))
	require.Equal(t, 200, ask("auth403", "203.0.113.2").status)

	// Whatever status a limit has: 503 would be an error to nginx, and the gate open.
	r.policy("shed", "{limits: {all: {rate: 1/h, status: 503}}}")
	require.Equal(t, 200, r.request("GET", "/v1/auth403/shed", "").status)
	require.Equal(t, 403, r.request("GET", "/v1/auth403/shed", "").status)
	require.Equal(t, 503, r.request("GET", "/v1/auth/shed", "").status)

	// An unknown policy does not open the gate.
	require.Equal(t, 404, r.request("GET", "/v1/auth/edg", "").status)
	a = r.request("GET", "/v1/auth403/edg", "")
	require.Equal(t, 403, a.status)
	require.Empty(t, a.body)
	// Nor does a path that names none, however it is written: neither a redirect nor 404
	// is a no to nginx.
	for _, path := range []string{"/v1/auth403", "/v1/auth403/", "/v1/auth403/team/edge", "/v1/auth403/team:edge/", "/v1/auth403//team:edge", "/v1//auth403/team:edge",
		"//v1/auth403/team:edge", "/v1/./auth403/team:edge", "/v1/auth403/.", "/v1/auth403/..", "/v1/auth403/../check", "/v1/x/../auth403/team:edge", "/v1/auth403%2Fteam:edge"} {
		a = r.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.3\r\n\r\n")
		require.Equal(t, 403, a.status, path)
		require.Empty(t, a.body, path)
		path = strings.Replace(path, "auth403", "auth", 1)
		a = r.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.3\r\n\r\n")
		require.Equal(t, 404, a.status, path)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), path)
	}
	require.Equal(t, 200, r.raw("GET /v1/auth403/team%2Fedge HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.3\r\n\r\n").status)
	require.Equal(t, 404, r.request("GET", "/v1/auth404/edge", "").status)
	for _, method := range []string{"HEAD", "POST", "PUT", "OPTIONS", "PURGE"} {
		require.Equal(t, 429, r.request(method, "/v1/auth/team:edge", "", "X-Forwarded-For", "203.0.113.1").status, method)
	}
}

// The fields of a gateway become attributes.
func TestForwardedAttributes(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{TrustedProxies: loopback})
	r.policy("all", "{limits: {l: {by: [ip, method, host, path], rate: 100/h, missing: deny}}}")
	ask := func(want int, header ...string) {
		t.Helper()
		require.Equal(t, want, r.request("GET", "/v1/auth/all", "", header...).status)
	}
	left := func(ip, method, host, path string) int64 {
		t.Helper()
		v := r.run("RL.CHECK", "all", "ip", ip, "method", method, "host", host, "path", path, "COST", "0")
		require.Empty(t, v.Error())
		return v.Field("remaining").Int
	}
	ask(200, "X-Forwarded-For", "2001:db8::1", "X-Forwarded-Method", "POST", "X-Forwarded-Host", "api.example.com", "X-Forwarded-Uri", "/a/b%20c?d=1?e")
	require.Equal(t, int64(99), left("2001:db8::1", "POST", "api.example.com", "/a/b%20c"))
	host := strings.TrimPrefix(r.url, "http://")
	ask(200, "X-Forwarded-For", "203.0.113.1", "X-Forwarded-Uri", "/a")
	require.Equal(t, int64(99), left("203.0.113.1", "GET", host, "/a"))
	ask(403, "X-Forwarded-For", "203.0.113.1")                                                   // no path
	ask(403, "X-Forwarded-Uri", "/a")                                                            // a proxy that names no client
	ask(403, "X-Forwarded-For", "203.0.113.1, x", "X-Forwarded-Uri", "/a")                       // or not one
	ask(200, "X-Forwarded-For", "203.0.113.1", "X-Forwarded-Uri", "/"+strings.Repeat("x", 8000)) // cut
}

// A request whose body is announced, and does not come, is answered at once; the
// connection is not used for another.
func TestForwardAuthReadsNoBody(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{TrustedProxies: loopback})
	r.policy("edge", "{limits: {all: {rate: 100/h}}}")
	for _, body := range []string{"Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"} {
		for _, dialect := range []string{"auth", "auth403"} {
			c := r.dial()
			require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Second)))
			_, err := io.WriteString(c, "POST /v1/"+dialect+"/edge HTTP/1.1\r\nHost: x\r\n"+body+"\r\n")
			require.NoError(t, err)
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err, body)
			require.Equal(t, 200, a.StatusCode)
			require.True(t, a.Close)
			a.Body.Close()
		}
	}
}
