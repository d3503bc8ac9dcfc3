package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
)

// A gateway's answer becomes an outcome. Calls that were certainly not executed differ
// from those that may have been, and an answer that no such question may get is wrong.
func TestGatewaysTell(t *testing.T) {
	answer := func(http.ResponseWriter) {}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/auth/routes:edge" || r.Header.Get("X-User") != "u" || !strings.HasPrefix(r.Header.Get("X-Forwarded-Uri"), "/orders/") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answer(w)
	}))
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	f := func(want history.Outcome, wrong bool, status int, body string) {
		t.Helper()
		answer = func(w http.ResponseWriter) { w.WriteHeader(status); io.WriteString(w, body) }
		g := &gateway{GatewayConfig: &GatewayConfig{HTTP: func(int) string { return addr }}, client: http.Client{Timeout: 10 * time.Second}}
		a := history.Asked{User: "u", Outcome: history.Unknown}
		g.byRoutes(&a)
		require.Equal(t, want, a.Outcome, "%+v", a)
		require.Equal(t, wrong, a.Wrong != "", "%+v", a)
	}
	f(history.Admitted, false, 200, "")
	f(history.Denied, false, 429, `{"verdict":{"degraded":false}}`)
	f(history.Refused, false, 503, `{"code":"CLUSTERDOWN"}`)
	f(history.Refused, false, 503, `{"code":"TRYAGAIN"}`)
	f(history.Unknown, false, 503, `{"code":"UNCERTAIN"}`)
	f(history.Unknown, false, 503, "")
	f(history.Unknown, true, 404, `{"code":"NOPOLICY"}`)
	f(history.Unknown, true, 403, "")
	addr = "127.0.0.1:1"
	f(history.Refused, false, 0, "")
}

// A biller is told the same of one verdict by either protocol.
func TestBillsOverHTTP(t *testing.T) {
	const verdict = `{"allowed":true,"limit":40,"remaining":37,"retry_after_ms":0,"reset_after_ms":9,"delay_ms":0,"name":"log","reason":"ok","hold":"bill;1","version":2,"applied":2,"limits":[],"soft":[]OVER,"degraded":false}`
	got := make(chan string, 1)
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + r.Header.Get("Idempotency-Key") + " " + string(body)
		io.WriteString(w, answer)
	}))
	defer s.Close()
	b := &biller{client: http.Client{Timeout: 10 * time.Second}}
	f := func(asked, over, rest string, call ...string) {
		t.Helper()
		answer = strings.ReplaceAll(verdict, "OVER", over)
		a, code := b.overHTTP(strings.TrimPrefix(s.URL, "http://"), call)
		require.Empty(t, code)
		require.Equal(t, asked, <-got)
		require.True(t, a.allowed)
		require.Equal(t, "bill;1", a.hold)
		require.Equal(t, "1 40 37 0 9 0 log0 ok0 bill;10 2 2"+rest, a.rest)
	}
	f(`/v1/reserve "7.1" {"attributes":{"user":"u"},"cost":3,"policy":"bill"}`, "", "", "RL.RESERVE", "bill", "user", "u", "COST", "3", "ID", "7.1")
	f(`/v1/commit  {"cost":1,"hold":"bill;1"}`, `,"over":4`, " 4", "RL.COMMIT", "bill;1", "COST", "1")
	f(`/v1/cancel  {"hold":"bill;1"}`, `,"over":0`, " 0", "RL.CANCEL", "bill;1")
}
