package web_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var talks = flag.Int("talks", 120, "how many random conversations are had on the short way and on net/http's")

// Random requests, right and wrong, in random pieces, are answered alike on both ways.
func TestShortWayTalksAlike(t *testing.T) {
	short, long := twoWays(t)
	for seed := range uint64(*talks) {
		random := rand.New(rand.NewPCG(seed, 14))
		text := ""
		for range 1 + random.IntN(6) {
			text += anyRequest(random)
		}
		pieces := pieced(text, 1+random.IntN(5))
		require.Equal(t, talk(t, long, pieces...), talk(t, short, pieces...), "seed %d: %q", seed, pieces)
	}
}

// Parts of random requests. The first of each are as they mostly are.
var (
	anyMethods  = []string{"GET", "HEAD", "OPTIONS", "PUT", "POST ", " POST", "P\x00T", "post", "CONNECT", "PRI"}
	anyPaths    = []string{"/v1/auth/p", "/v1/auth/few", "/v1/auth403/few?x=%2F", "/v1/authz/p/a//b/%2e%2e/c", "/v1/auth%2Fp", "//v1/auth/p", "/v1/../v1/auth/p", "http://y/v1/auth/p", "http://y/v1/check", "/v1/%63heck", "/v1/check?", "/v1/check/", "/v1/check#a", "/v1/limits:check", "/v1/commit", "/v1/check:batch", "/healthz", "/nowhere", "*", "/v1/check%", "/v1/chec k", "", "/v1/auth/\xff"}
	anyVersions = []string{"HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/1.1 ", "http/1.1", "HTTP/1.01", ""}
	anyHosts    = []string{"Host: x\r\nHost: x", "Host: x\r\nhost: y", "Host:", "Host: a/b", "Host: evil.example", "Host : x", "A: b", "Host: x\r\n y", "Host: \x00"}
	anyFields   = []string{
		"Authorization: Bearer x", "Authorization: Basic eDp5", "Cookie: a=b; c=d", "Idempotency-Key: \"k\"", "Origin: http://evil.example", "Origin: http://x", "Sec-Fetch-Site: cross-site",
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.9, 127.0.0.1", "X-Forwarded-Uri: /a?b", "X-Forwarded-Method: PUT", "X-User: u", "Connection: keep-alive", "Connection: close", "Connection: Close, te", "Connection: upgrade\r\nUpgrade: websocket", "Upgrade: h2c",
		"Expect: 100-continue", "Expect: x", "Trailer: A", "TE: trailers", "Pragma: no-cache", "Content-Type: application/json", "Content-Type: text/plain", "Content-Encoding: gzip",
		"A: b\r\n c", " A: b", "A : b", "A\t: b", ": b", "A", "A: b\rc", "A: \x00", "A: \x7f", "\xe4: b", "A: b\nB: c", "A: \xff\xfe", "A:" + strings.Repeat("x", 4000), "A: " + strings.Repeat("y", 9000),
		"Transfer-Encoding: identity", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding : chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding:\x0bchunked", "Content-Length: 0", "Content-Length: 3",
	}
	// Longer than what is behind none is, so that nobody waits.
	anyLengths = []string{"+5", "-1", "0x2", "", " ", "5, 5", "5 5", "05", "1e1", "99999999999999999999", "9223372036854775807", "9223372036854775000", "1000000", "2\r\nContent-Length: 2", "2\r\nContent-Length: 3", "2\r\ncontent-length: 0", "2\r\nTransfer-Encoding: chunked"}
	anyBodies  = []string{`{"policy":"p","attributes":{"user":"a"}}`, `{"policy":"few"}`, `{"policy":"p","attributes":{"user":"a"},"respond":"status"}`, `{"policy":"nobody"}`, `{}`, `{`, ``, `[]`, `{"policy":"p","policy":"p"}`, "{\"policy\":\"\\u0000\"}", `{"policy":"p","cost":99999999999999999999}`, "\r\n\r\n"}
	anyBetween = []string{"\r\n", "\n", "\r", "\r\n\r\n", "\r\n\r\n\r\n", "\x00", " "}
)

// anyRequest is a random request, of which half are right and go by the short way.
func anyRequest(random *rand.Rand) string {
	one := func(of []string) string { return of[random.IntN(len(of))] }
	odd := func(usual string, odd []string) string {
		if random.IntN(12) > 0 {
			return usual
		}
		return one(odd)
	}
	posts := random.IntN(3) > 0
	method, path := "GET", one(anyPaths[:4])
	if posts {
		method, path = "POST", "/v1/check"
	}
	var b strings.Builder
	b.WriteString(odd("", anyBetween))
	fmt.Fprintf(&b, "%s %s %s\r\n%s\r\n", odd(method, anyMethods), odd(path, anyPaths), odd("HTTP/1.1", anyVersions), odd("Host: x", anyHosts))
	if random.IntN(3) == 0 {
		b.WriteString(one(anyFields) + "\r\n")
	}
	if !posts {
		return b.String() + odd("\r\n", []string{"\n", "\r\r\n"})
	}
	body := one(anyBodies)
	b.WriteString(odd("Content-Type: application/json\r\n", []string{""}))
	if random.IntN(10) == 0 {
		fmt.Fprintf(&b, "Transfer-Encoding: %s\r\n\r\n%x\r\n%s\r\n0\r\n%s", odd("chunked", []string{"Chunked", "x"}), len(body), body, odd("\r\n", []string{"A: b\r\n\r\n"}))
		return b.String()
	}
	length := len(body) + int(odd("\x00", []string{"\x01", "\x05"})[0])
	fmt.Fprintf(&b, "Content-Length: %s\r\n\r\n%s", odd(fmt.Sprint(length), anyLengths), body)
	return b.String()
}
