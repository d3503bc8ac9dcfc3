package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// discard is where an answer goes.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkHTTP is what the front adds to net/http: a request that has been read, to
// an answer that is not sent.
func BenchmarkHTTP(b *testing.B) {
	s, err := server.New(server.Config{Parts: server.One(engine.New(engine.Config{}), nil)})
	require.NoError(b, err)
	defer s.Shutdown(context.Background())
	for name, text := range map[string]string{"p": "{limits: {user: {by: user, rate: 1_000_000_000/day}}}", "edge": "{limits: {ip: {by: ip, rate: 1_000_000_000/day}}}"} {
		reply, err := s.Caller().Do(b.Context(), []byte("RL.POLICY"), []byte("SET"), []byte(name), []byte(text))
		require.NoError(b, err)
		require.Empty(b, reply.Error())
	}
	handler := web.New(web.Config{Source: source{}, Decider: s.Caller(), TrustedProxies: loopback, Logger: slog.New(slog.DiscardHandler)}).Handler()
	const check = `{"policy":"p","attributes":{"user":"eve"}}`
	for _, v := range []struct{ name, method, path, body string }{
		{"check", "POST", "/v1/check", check},
		{"auth", "GET", "/v1/auth/edge", ""},
		{"batch", "POST", "/v1/check:batch", fmt.Sprintf(`{"checks":[%s]}`, strings.TrimSuffix(strings.Repeat(check+",", 100), ","))},
	} {
		b.Run(v.name, func(b *testing.B) {
			body := strings.NewReader(v.body)
			r, err := http.NewRequest(v.method, "http://x"+v.path, nil)
			require.NoError(b, err)
			r.RemoteAddr = "127.0.0.1:999"
			r.Header = http.Header{"Content-Type": {"application/json"}, "X-Forwarded-For": {"203.0.113.9"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/things"}}
			r.ContentLength = int64(len(v.body))
			w := &discard{make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				body.Reset(v.body)
				r.Body = io.NopCloser(body)
				handler.ServeHTTP(w, r)
			}
		})
	}
}
