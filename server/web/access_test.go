package web_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/web"
)

// paths are one request for each path and method that there is, with its right.
var paths = []struct {
	right              access.Right
	method, path, body string
}{
	{access.RightRead, "POST", "/v1/check", `{"policy":"p"}`},
	{access.RightRead, "POST", "/v1/check:batch", `{"checks":[]}`},
	{access.RightRead, "POST", "/v1/reserve", `{"policy":"p"}`},
	{access.RightRead, "POST", "/v1/commit", `{"hold":"p;x"}`},
	{access.RightRead, "POST", "/v1/cancel", `{"hold":"p;x"}`},
	{access.RightRead, "POST", "/v1/limits:check", `{"policy":"p"}`},
	{access.RightRead, "POST", "/v1/acquire", `{"key":"k"}`},
	{access.RightRead, "POST", "/v1/release", `{"key":"k"}`},
	{access.RightRead, "POST", "/v1/extend", `{"key":"k"}`},
	{access.RightRead, "POST", "/v1/lease", `{"key":"k"}`},
	{access.RightRead, "POST", "/v1/return", `{"key":"k"}`},
	{access.RightRead, "GET", "/v1/auth/p", ""},
	{access.RightSee, "GET", "/metrics", ""},
	{access.RightSee, "GET", "/v1/policies", ""},
	{access.RightSee, "GET", "/v1/policies/p", ""},
	{access.RightSee, "GET", "/v1/policies/p/history", ""},
	{access.RightSee, "GET", "/v1/policies/p/diff?from=1", ""},
	{access.RightSee, "POST", "/v1/policies:check", "policies: {}"},
	{access.RightSee, "GET", "/v1/overrides/p", ""},
	{access.RightSee, "POST", "/v1/explain", `{"policy":"p"}`},
	{access.RightSee, "POST", "/v1/routes:test", `{"routes":"edge","path":"/"}`},
	{access.RightSee, "GET", "/v1/explain?policy=p", ""},
	{access.RightSee, "GET", "/v1/top", ""},
	{access.RightSee, "GET", "/v1/now", ""},
	{access.RightSee, "GET", "/v1/history", ""},
	{access.RightSee, "GET", "/v1/counts", ""},
	{access.RightSee, "GET", "/v1/cluster", ""},
	{access.RightSee, "POST", "/v1/simulate", `{}`},
	{access.RightWrite, "PUT", "/v1/policies/q", "limits: {all: {rate: 5/h}}"},
	{access.RightWrite, "PUT", "/v1/policies/q?dry_run=true", "limits: {all: {rate: 5/h}}"},
	{access.RightWrite, "POST", "/v1/policies/q/rollback", `{"version":1}`},
	{access.RightWrite, "POST", "/v1/policies/q/reset", `{"all":true}`},
	{access.RightWrite, "DELETE", "/v1/policies/q", ""},
	{access.RightWrite, "POST", "/v1/policies:load", "policies: {}"},
	{access.RightWrite, "PUT", "/v1/overrides/p", `{"percent":50}`},
	{access.RightWrite, "POST", "/v1/overrides/p", `{"overrides":[]}`},
	{access.RightWrite, "DELETE", "/v1/overrides/p?scale=true", ""},
}

// Every path asks for its right if a request has no credentials, or those of another right.
func TestEveryPathAsksForItsRight(t *testing.T) {
	grants := access.Grants{}
	tokens := map[access.Right]string{access.RightRead: "read", access.RightSee: "see", access.RightWrite: "write"}
	for right, token := range tokens {
		grants.Tokens[right] = token
	}
	r := newManaged(t, guarded(grants))
	r.policy("p", "{limits: {all: {rate: 100/h}}}")
	for _, p := range paths {
		ask := func(header ...string) int {
			return r.request(p.method, p.path, p.body, append([]string{"Content-Type", "application/json"}, header...)...).status
		}
		require.Equal(t, 401, ask(), p.path)
		for right, token := range tokens {
			want := 403
			if right == p.right || right == access.RightWrite && p.right == access.RightSee {
				want = 0
			}
			status := ask("Authorization", "Bearer "+token)
			if want == 0 {
				require.NotContains(t, []int{401, 403}, status, "%s of %s", token, p.path)
			} else {
				require.Equal(t, want, status, "%s of %s", token, p.path)
			}
		}
	}
	for _, path := range []string{"/healthz", "/v1/openapi.yaml"} {
		require.Equal(t, 200, r.request("GET", path, "").status)
	}
	require.Equal(t, 401, r.request("GET", "/v1/policies", "", "Authorization", "Bearer wrong").status)
	// The password of the Redis protocol does not close the metrics.
	r.server.Configure(server.Runtime{RequirePass: "P"})
	require.Equal(t, 200, r.request("GET", "/metrics", "").status)
	require.Equal(t, 401, r.request("GET", "/v1/now", "").status)
}

// Where nothing is asked for, changes are for the loopback interface, and not for
// pages in a browser on it.
func TestChangesWithoutAToken(t *testing.T) {
	const text = "limits: {all: {rate: 5/h}}"
	far := newRig(t, server.Config{}, web.Config{View: view{}})
	require.Equal(t, 401, far.put("/v1/policies/p", text).status)
	require.Equal(t, 200, far.request("GET", "/v1/policies", "").status)

	r := newManaged(t, server.Config{})
	raw := func(host, more string) int {
		a := r.raw("DELETE /v1/policies/p HTTP/1.1\r\nHost: " + host + "\r\n" + more + "Connection: close\r\n\r\n")
		return a.status
	}
	for _, host := range []string{"localhost", "localhost:7380", "127.0.0.1:7380", "[::1]:7380"} {
		require.Equal(t, 404, raw(host, ""), host)
	}
	require.Equal(t, 403, raw("rebound.example.com", ""))
	require.Equal(t, 403, raw("127.0.0.1:7380", "Sec-Fetch-Site: cross-site\r\n"))
	require.Equal(t, 403, raw("127.0.0.1:7380", "Origin: https://example.com\r\n"))
	a := r.raw("OPTIONS /v1/policies/p HTTP/1.1\r\nHost: localhost\r\nOrigin: https://example.com\r\nAccess-Control-Request-Method: PUT\r\nConnection: close\r\n\r\n")
	require.Equal(t, 405, a.status)
	for name := range a.header {
		require.NotContains(t, name, "Access-Control")
	}
}

// If no credentials are configured on the loopback interface, a page reads nothing by DNS
// rebinding. Gateways may pass on any name.
func TestReadsUnderAReboundName(t *testing.T) {
	r := newManaged(t, server.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/h}}}")
	for host, want := range map[string]int{
		"localhost": 200, "127.0.0.1:7380": 200, "[::1]:7380": 200, "[::1]": 200, "headgate:7380": 200, "a.localhost": 200,
		"rebound.example.com:7380": 403, "1.2.3.4.example.com": 403,
	} {
		for path, body := range map[string]string{"/v1/check": `{"policy":"p"}`, "/v1/now": "", "/metrics": "", "/v1/policies": ""} {
			method := "GET"
			if body != "" {
				method = "POST"
			}
			a := r.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, host, len(body), body))
			require.Equal(t, want, a.status, "%s of %s", path, host)
		}
		for path, want := range map[string]int{"/v1/auth/p": 200, "/healthz": 200} {
			require.Equal(t, want, r.raw("GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n").status, "%s of %s", path, host)
		}
	}
}

// A client certificate opens what its name is given, over TLS of the port's own; one
// of another authority opens nothing.
func TestClientCertificates(t *testing.T) {
	own, other := certstest.New(), certstest.New()
	pair := func(a *certstest.Authority, name string) tls.Certificate {
		c, err := tls.X509KeyPair(a.Issue(name))
		require.NoError(t, err)
		return c
	}
	pool := x509.NewCertPool()
	pool.AddCert(own.Cert)
	grants := access.Grants{}
	grants.Certificates[access.RightRead], grants.Certificates[access.RightWrite] = []string{"gate"}, []string{"ci"}
	r := newManaged(t, guarded(grants))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, url := serve(t, web.Config{Decider: r.caller, View: view{}, Local: true}, tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{pair(own, "server")}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}))
	ask := func(method, path, body string, certificates ...tls.Certificate) (int, error) {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates}}}
		q, err := http.NewRequest(method, strings.Replace(url, "http:", "https:", 1)+path, strings.NewReader(body))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		a, err := client.Do(q)
		if err != nil {
			return 0, err
		}
		defer a.Body.Close()
		return a.StatusCode, nil
	}
	for name, want := range map[string][2]int{"": {401, 401}, "gate": {200, 403}, "ci": {403, 200}, "eve": {401, 401}} {
		var certificates []tls.Certificate
		if name != "" {
			certificates = append(certificates, pair(own, name))
		}
		status, err := ask("POST", "/v1/check:batch", `{"checks":[]}`, certificates...)
		require.NoError(t, err)
		require.Equal(t, want[0], status, "%q reads", name)
		status, err = ask("PUT", "/v1/policies/p", `{limits: {all: {rate: 5/h}}}`, certificates...)
		require.NoError(t, err)
		require.Equal(t, want[1], status, "%q changes", name)
	}
	_, err = ask("PUT", "/v1/policies/p", `{limits: {all: {rate: 6/h}}}`, pair(other, "ci"))
	require.Error(t, err)
	history := r.run("RL.POLICY", "HISTORY", "p")
	require.Len(t, history.Elems, 1)
	require.Regexp(t, `^certificate ci at 127\.0\.0\.1:\d+$`, history.Elems[0].Field("author").Str)
}

// A gateway that lets requests pass when the answer is late learns at once that its token is
// wrong, however many others guess, and every time.
func TestWrongTokenOfAGateway(t *testing.T) {
	grants := access.Grants{}
	grants.Tokens[access.RightRead] = "read"
	r := newRig(t, guarded(grants), web.Config{})
	r.policy("p", "{limits: {all: {rate: 1000/h}}}")
	fastest := time.Hour
	for i := range 20 { // more than an address may guess
		for gate, want := range map[string]int{"/v1/auth": 401, "/v1/auth403": 403, "/v1/authz": 401} {
			began := time.Now()
			require.Equal(t, want, r.request("GET", gate+"/p", "", "Authorization", fmt.Sprint("Bearer wrong", i)).status)
			fastest = min(fastest, time.Since(began))
		}
	}
	require.Less(t, fastest, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		return r.request("GET", "/v1/auth403/p", "", "Authorization", "Bearer read").status == 200
	}, 10*time.Second, 10*time.Millisecond, "soon the right one is looked at again")
}
