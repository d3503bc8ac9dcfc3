package web_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

const edgeRoutes = `
else: deny
attributes: {user: {header: X-User}}
match:
  POST api.example.com/v1/login: {policy: login, cost: 2}
  /v1/items/{item}: {policy: items, attributes: {item: {path: item}, key: {query: key}, session: {cookie: sid}, tier: free}}
  /v1/*: api
  GET /healthz: allow
  /files/{name}: api
`

// routed is a rig with routes.
func routed(t *testing.T, sc server.Config, wc web.Config) *rig {
	r := newRig(t, sc, wc)
	r.policy("login", "{limits: {user: {by: user, rate: 4/h}}}")
	r.policy("items", "{limits: {item: {by: [item, key, session, tier], rate: 100/h, missing: deny}}}")
	r.policy("api", "{require: method, limits: {all: {by: [ip, host, path, route], rate: 100/h, missing: deny}}}")
	r.policy("routes/edge", edgeRoutes)
	return r
}

// gateway asks for a request of 203.0.113.1, with more header fields.
func (r *rig) gateway(gate, method, host, target string, header ...string) answer {
	r.t.Helper()
	return r.request("GET", gate+"/routes:edge", "", append([]string{"X-Forwarded-For", "203.0.113.1",
		"X-Forwarded-Method", method, "X-Forwarded-Host", host, "X-Forwarded-Uri", target}, header...)...)
}

// left is what a limit has left for a caller.
func (r *rig) left(policy string, attributes ...string) int64 {
	r.t.Helper()
	v := r.run(append([]string{"RL.CHECK", policy, "COST", "0"}, attributes...)...)
	require.Empty(r.t, v.Error())
	return v.Field("remaining").Int
}

func TestRoutesOfGateways(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{TrustedProxies: loopback})
	for range 2 {
		a := r.gateway("/v1/auth", "POST", "API.example.com:443", "//v1/x/%2e%2e/login/?user=bob", "X-User", "eve")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, `"user";q=4;w=3600`, a.header.Get("RateLimit-Policy"))
	}
	require.Equal(t, int64(0), r.left("login", "user", "eve"), "it costs 2")
	require.Equal(t, 429, r.gateway("/v1/auth", "POST", "api.example.com", "/v1/login", "X-User", "eve").status)
	a := r.gateway("/v1/auth403", "POST", "api.example.com", "/v1/login", "X-User", "eve")
	require.Equal(t, 403, a.status)
	require.Empty(t, a.body)
	require.NotEmpty(t, a.header.Get("Retry-After"))

	a = r.gateway("/v1/auth", "GET", "x", "/v1/items/7%20a?a=b&k%65y=k%201&key=2", "Cookie", "a=b; sid=s1; sid=s2")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, int64(99), r.left("items", "item", "7 a", "key", "k 1", "session", "s1", "tier", "free"))
	require.Equal(t, 403, r.gateway("/v1/auth", "GET", "x", "/v1/items/7?key=").status, "what a request has not is absent")

	require.Equal(t, 200, r.gateway("/v1/auth403", "DELETE", "X.", "/v1/./things/").status)
	require.Equal(t, int64(99), r.left("api", "ip", "203.0.113.1", "method", "DELETE", "host", "x", "path", "/v1/things", "route", "/v1/*"))

	// Nothing is asked.
	a = r.gateway("/v1/auth403", "HEAD", "x", "/healthz")
	require.Equal(t, 200, a.status)
	require.Empty(t, a.header.Get("RateLimit"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	for _, request := range [][3]string{{"GET", "x", "/other"}, {"POST", "x", "/healthz"}, {"OPTIONS", "x", "*"}, {"GET", "x", "/files/a%2Fb"}, {"GET", "x", "/v1/../files%2fa"}} {
		a = r.gateway("/v1/auth403", request[0], request[1], request[2])
		require.Equal(t, 403, a.status, request)
		require.Empty(t, a.body)
		a = r.gateway("/v1/auth", request[0], request[1], request[2])
		require.Equal(t, 403, a.status, request)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	}
}

// A request that a gateway describes wrongly does not pass.
func TestRoutesOfWrongGateways(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{TrustedProxies: loopback})
	target := []string{"X-Forwarded-Uri", "/v1/a", "X-Forwarded-For", "203.0.113.1"}
	for want, header := range map[string][]string{
		"X-Forwarded-Uri is given twice":    append([]string{"X-Forwarded-Uri", "/healthz"}, target...),
		"X-Forwarded-Method is given twice": append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Method", "GET"}, target...),
		"X-Forwarded-Host is given twice":   append([]string{"X-Forwarded-Host", "a", "X-Forwarded-Host", "b"}, target...),
		"X-User is given twice":             append([]string{"X-User", "eve", "X-User", "bob"}, target...),
		"X-Forwarded-Uri is missing":        {"X-Forwarded-For", "203.0.113.1"},
	} {
		a := r.request("GET", "/v1/auth/routes:edge", "", header...)
		require.Equal(t, 400, a.status, want)
		require.Contains(t, a.body, want)
		require.Equal(t, 403, r.request("GET", "/v1/auth403/routes:edge", "", header...).status, want)
	}
	require.Equal(t, 404, r.request("GET", "/v1/auth/routes:egde", "", target...).status)
	require.Equal(t, 403, r.request("GET", "/v1/auth403/routes:egde", "", target...).status)
	require.Equal(t, 404, r.request("GET", "/v1/auth/edge", "", target...).status)

	// A caller that is no trusted proxy gets no answer, whatever it sends.
	stranger := routed(t, server.Config{}, web.Config{})
	a := stranger.gateway("/v1/auth", "GET", "x", "/healthz")
	require.Equal(t, 403, a.status)
	require.Contains(t, a.body, "trusted-proxies")
}

// ext_authz asks with its client's method, host and path.
func TestExtAuthz(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{TrustedProxies: loopback})
	ask := func(method, host, path string, header ...string) answer {
		a := r.raw(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\nX-Forwarded-For: 203.0.113.1\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n")
		return a
	}
	a := ask("DELETE", "h:80", "/v1/authz/routes:edge/v1/a/../b?c=d", "X-Forwarded-Uri: /healthz", "X-Forwarded-Method: GET")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, int64(99), r.left("api", "ip", "203.0.113.1", "method", "DELETE", "host", "h", "path", "/v1/b", "route", "/v1/*"))
	require.Equal(t, 200, ask("GET", "h", "/v1/authz/routes:edge/v1/items/7?key=k", "Cookie: sid=s").status)
	require.Equal(t, int64(99), r.left("items", "item", "7", "key", "k", "session", "s", "tier", "free"))
	require.Equal(t, 200, ask("GET", "h", "/v1/authz/routes:edge/../../healthz").status)
	require.Equal(t, 403, ask("GET", "h", "/v1/authz/routes:edge").status)
	require.Equal(t, 404, ask("GET", "h", "/v1/authz").status)
	require.Equal(t, 404, ask("GET", "h", "/v1/authz/none/v1/check").status)
	r.policy("plain", "{limits: {all: {by: path, rate: 1/h, missing: deny}}}")
	require.Equal(t, 200, ask("POST", "h", "/v1/authz/plain/a/b?c").status)
	a = ask("POST", "h", "/v1/authz/plain/a/b")
	require.Equal(t, 429, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	require.NotEmpty(t, a.header.Get("Retry-After"))
}

// Routes are versions like policies, and go to policies that are there.
func TestRoutesAreRecords(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{TrustedProxies: loopback})
	fails := func(want string, args ...string) {
		t.Helper()
		require.Contains(t, r.run(args...).Error(), want)
	}
	fails(`there is no policy "logn", did you mean "login"?`, "RL.POLICY", "SET", "routes/edge", "{else: logn}")
	fails("a route uses the policy to delete: ", "RL.POLICY", "DEL", "login")
	fails("NOPOLICY", "RL.CHECK", "routes/edge")
	require.Equal(t, int64(2), r.run("RL.POLICY", "SET", "routes/edge", "{else: deny, match: {/v1/*: allow}}").Int)
	require.Equal(t, 200, r.gateway("/v1/auth", "GET", "x", "/v1/items/1").status)
	lines := r.run("RL.POLICY", "DIFF", "routes/edge", "1").Elems
	require.Len(t, lines, 6)
	require.Equal(t, int64(3), r.run("RL.POLICY", "ROLLBACK", "routes/edge", "1").Int)
	require.Equal(t, 403, r.gateway("/v1/auth", "GET", "x", "/v1/items/1").status)
	require.Len(t, r.run("RL.POLICY", "HISTORY", "routes/edge").Elems, 3)
	dry := r.run("RL.POLICY", "SET", "routes/edge", "DRYRUN", "{else: {policy: login, attributes: {usr: {header: X-User}}}}").Elems
	require.Contains(t, dry[len(dry)-1].Str, `policy "login" has no use for the attribute "usr", did you mean "user"?`)
	require.Empty(t, r.run("RL.POLICY", "DEL", "routes/edge").Error())
	require.Equal(t, 404, r.gateway("/v1/auth", "GET", "x", "/v1/items/1").status)
	require.Empty(t, r.run("RL.POLICY", "DEL", "login").Error())
	require.Empty(t, r.run("RL.POLICY", "LOAD", "policies: {p: {limits: {a: {rate: 1/s}}}}\nroutes: {edge: {else: p}, other: {else: allow}}").Error())
	require.Equal(t, 200, r.gateway("/v1/auth", "GET", "x", "/").status)
}

// If no gateway is a trusted proxy, nobody knows the addresses of clients.
func TestRoutesByAddressNeedTrustedProxies(t *testing.T) {
	r := newRig(t, server.Config{NoGateways: true}, web.Config{})
	r.policy("net", "{limits: {ip: {by: ip, rate: 4/h}}}")
	r.policy("user", "{limits: {user: {by: user, rate: 4/h}}}")
	require.Contains(t, r.run("RL.POLICY", "SET", "routes/edge", "{else: net}").Error(), "set trusted-proxies to the gateway's address")
	r.policy("routes/edge", "{else: user}")
}

// A trial of a request says what the routes do with it, and counts nothing.
func TestRouteTrials(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{View: view{}, Local: true})
	try := func(body string) map[string]any {
		t.Helper()
		return r.post("/v1/routes:test", body).ok(t, 200).decode(t)
	}
	for range 3 { // nothing is counted
		a := try(`{"routes":"edge","method":"POST","host":"API.example.com:443","path":"//v1/login?x=y","headers":{"x-user":" eve "},"ip":"203.0.113.1"}`)
		require.Equal(t, "routes/edge", a["routes"])
		require.Equal(t, "POST api.example.com/v1/login", a["route"])
		require.Equal(t, "policy", a["answer"])
		require.Equal(t, "login", a["policy"])
		require.Equal(t, json.Number("2"), a["cost"])
		require.Equal(t, []any{
			map[string]any{"name": "user", "value": "eve", "from": "header X-User"},
			map[string]any{"name": "method", "value": "POST", "from": "the request"},
			map[string]any{"name": "host", "value": "api.example.com", "from": "the request"},
			map[string]any{"name": "path", "value": "/v1/login", "from": "the request, in one spelling"},
			map[string]any{"name": "route", "value": "POST api.example.com/v1/login", "from": "the route"},
			map[string]any{"name": "ip", "value": "203.0.113.1", "from": "the client's address"},
		}, a["attributes"])
		verdict := a["verdict"].(map[string]any)
		require.Equal(t, true, verdict["allowed"])
		require.Equal(t, json.Number("2"), verdict["remaining"], "of 4, after a call with cost 2")
	}
	require.EqualValues(t, 4, r.left("login", "user", "eve"))
	require.EqualValues(t, 1, r.run("RL.CHECK", "login", "user", "eve", "COST", "4").Field("allowed").Int)
	denied := try(`{"routes":"routes/edge","method":"POST","host":"api.example.com","path":"/v1/login","headers":{"X-User":"eve"}}`)
	require.Equal(t, "user", denied["verdict"].(map[string]any)["name"])
	require.Equal(t, false, denied["verdict"].(map[string]any)["allowed"])

	// An attribute that the request lacks comes first, without a value.
	lacks := try(`{"routes":"edge","path":"/v1/things","host":"<b>","ip":"203.0.113.1"}`)
	require.Equal(t, map[string]any{"name": "user", "value": "", "from": "header X-User"}, lacks["attributes"].([]any)[0])
	require.Equal(t, "api", lacks["policy"])
	require.NotContains(t, lacks, "cost")

	// Routes that ask no policy.
	a := try(`{"routes":"edge","path":"/healthz"}`)
	require.Equal(t, "GET /healthz", a["route"])
	require.Equal(t, "allow", a["answer"])
	a = try(`{"routes":"edge","method":"PUT","path":"/healthz"}`)
	require.Nil(t, a["route"])
	require.Equal(t, "deny", a["answer"])
	require.NotContains(t, a, "verdict")

	// A policy that would not answer.
	r.policy("strict", "{require: user, limits: {user: {by: user, rate: 4/h}}}")
	r.policy("routes/strict", "{else: strict}")
	a = try(`{"routes":"strict","path":"/"}`)
	require.Contains(t, a["error"], "user")
	require.Equal(t, "strict", a["policy"])
	require.NotContains(t, a, "verdict")

	for body, want := range map[string]int{
		`{"routes":"edge"}`: 400, `{"path":"/"}`: 400, `{}`: 400, `[]`: 400, ``: 400, `{"routes":"edge","path":"/","url":"x"}`: 400,
		`{"routes":"edge","path":"/","ip":"x"}`: 400, `{"routes":"edge","path":"/","headers":{"A":1}}`: 400,
		`{"routes":"egde","path":"/"}`: 404, `{"routes":"login","path":"/"}`: 404,
		`{"routes":"edge","path":"/files/a%2Fb"}`: 422, `{"routes":"edge","path":"/v1/a","headers":{"X-User":"a","x-user":"b"}}`: 422,
		`{"routes":"edge","path":"` + strings.Repeat("x", 64<<10) + `"}`: 413,
	} {
		require.Equal(t, want, r.post("/v1/routes:test", body).status, "%.80s", body)
	}
	require.Equal(t, 405, r.request("GET", "/v1/routes:test", "").status)

	_, r.url = start(t, web.Config{Decider: late{r.caller}, View: view{}, Local: true})
	require.Equal(t, 503, r.post("/v1/routes:test", `{"routes":"edge","path":"/"}`).status)
}

// late is a server on which no change of routes has arrived yet.
type late struct{ *server.Caller }

func (late) Routes(string) *policy.Routes { return nil }

// A node that does not know all routes yet does not say that some do not exist. A gateway that
// asks another node, or asks again, gets its answer.
func TestRoutesThatANodeDoesNotKnowYet(t *testing.T) {
	r := routed(t, server.Config{}, web.Config{TrustedProxies: loopback})
	_, r.url = start(t, web.Config{Decider: late{r.caller}, TrustedProxies: loopback})
	for _, gate := range []string{"/v1/auth", "/v1/auth403"} {
		a := r.gateway(gate, "GET", "h", "/healthz")
		require.Equal(t, 503, a.status, a.body)
		if gate == "/v1/auth" {
			require.Equal(t, "TRYAGAIN", a.decode(t)["code"])
		}
	}
	require.Equal(t, 404, r.request("GET", "/v1/auth/routes:none", "", "X-Forwarded-Uri", "/").status)
}
