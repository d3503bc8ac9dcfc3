package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
	"github.com/headgate-io/headgate/server/web/admin"
)

// view is what a test's node knows of itself.
type view struct{ cluster *admin.Cluster }

func (v view) Now() admin.Now {
	return admin.Now{Node: "n1", Version: "test", Started: "2026-01-01T00:00:00Z", Leader: true}
}

func (v view) Cluster() *admin.Cluster { return v.cluster }

func (v view) Durations() admin.Durations { return admin.Durations{} }

func (v view) Counts() []admin.LimitCount {
	return []admin.LimitCount{
		{Policy: "pay", Limit: "user", Allowed: 5, Denied: 1}, {Policy: "pay", Limit: "soft", Allowed: 9, Shadow: 4}, {Policy: "shop", Limit: "user", Allowed: 2, Denied: 2},
	}
}

// newManaged is newRig with the admin API, on loopback.
func newManaged(t testing.TB, sc server.Config) *rig {
	return newRig(t, sc, web.Config{View: view{}, Local: true})
}

// put sends a policy's text.
func (r *rig) put(path, text string, header ...string) answer {
	r.t.Helper()
	return r.request("PUT", path, text, append([]string{"Content-Type", "application/yaml"}, header...)...)
}

// ok requires a status, and returns the body.
func (a answer) ok(t testing.TB, status int) *answer {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	if status >= 400 {
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.body)
		require.Equal(t, fmt.Sprint(status), fmt.Sprint(a.decode(t)["status"]))
	}
	return &a
}

// A policy is made, read, changed on a condition, compared, rolled back and deleted, with the
// versions and the author of RL.POLICY.
func TestPolicies(t *testing.T) {
	r := newManaged(t, server.Config{})
	get := func(path string, header ...string) answer { return r.request("GET", path, "", header...) }
	get("/v1/policies/team:pay").ok(t, 404)
	require.JSONEq(t, `{"policies":[]}`, get("/v1/policies").ok(t, 200).body)
	first, second := "limits: {user: {by: user, rate: 5/h}}", "limits: {user: {by: user, rate: 50/h}}"

	a := r.put("/v1/policies/team:pay", first, "If-None-Match", "*").ok(t, 200)
	require.Equal(t, `{"name":"team/pay","version":1}`, a.body)
	require.Equal(t, `"1"`, a.header.Get("Etag"))
	r.put("/v1/policies/team:pay", first, "If-None-Match", "*").ok(t, 412)
	a = get("/v1/policies/team:pay").ok(t, 200)
	require.Equal(t, `"1"`, a.header.Get("Etag"))
	require.Equal(t, first, a.decode(t)["text"])
	require.Regexp(t, `^default http at 127\.0\.0\.1:\d+$`, a.decode(t)["author"])
	get("/v1/policies/team:pay", "If-None-Match", `"1"`).ok(t, 304)
	a = get("/v1/policies/team:pay", "Accept", "application/yaml").ok(t, 200)
	require.Equal(t, first, a.body)
	require.Equal(t, "application/yaml", a.header.Get("Content-Type"))

	a = r.put("/v1/policies/team:pay?dry_run=true", second).ok(t, 200)
	require.Contains(t, a.body, "rate")
	require.Equal(t, "1", fmt.Sprint(get("/v1/policies/team:pay").ok(t, 200).decode(t)["version"]), "nothing has changed")
	r.put("/v1/policies/team:pay?dryrun=true", second).ok(t, 400)
	for _, value := range []string{"yes", "", "1", "TRUE"} {
		r.put("/v1/policies/team:pay?dry_run="+value, second).ok(t, 400)
	}
	r.put("/v1/policies/team:pay?dry_run", second).ok(t, 400)
	r.put("/v1/policies/%2e%2e", second).ok(t, 400)
	r.put("/v1/policies/%2e", second).ok(t, 400)

	require.Contains(t, r.put("/v1/policies/team:pay", second, "If-Match", `"7"`).ok(t, 412).body, `"VERSION"`)
	r.put("/v1/policies/team:pay", second, "If-Match", `"1"`).ok(t, 200)
	r.put("/v1/policies/team:pay?change=proportional", first, "If-Match", "*").ok(t, 200)
	r.put("/v1/policies/team:other", second, "If-Match", "*").ok(t, 412)
	for _, bad := range []string{"1", `"x"`, `""`, `"1`, `W/"1"`, `"0"`, `"01"`, `"1", "2"`} {
		r.put("/v1/policies/team:pay", second, "If-Match", bad).ok(t, 400)
	}
	r.put("/v1/policies/team:pay", second, "If-None-Match", `"3"`).ok(t, 400)

	versions := get("/v1/policies/team:pay/history").ok(t, 200).decode(t)["versions"].([]any)
	require.Len(t, versions, 3)
	require.Equal(t, false, versions[0].(map[string]any)["deleted"])
	require.Contains(t, get("/v1/policies/team:pay/diff?from=1&to=2").ok(t, 200).body, "5/h")
	require.JSONEq(t, `{"differences":[]}`, get("/v1/policies/team:pay/diff?from=1").ok(t, 200).body)
	get("/v1/policies/team:pay/diff").ok(t, 400)
	get("/v1/policies/nothing/history").ok(t, 404)
	require.Equal(t, second, get("/v1/policies/team:pay?version=2").ok(t, 200).decode(t)["text"])
	get("/v1/policies/team:pay?version=9").ok(t, 404)

	a = r.post("/v1/policies/team:pay/rollback", `{"version": 2}`, "If-Match", `"3"`).ok(t, 200)
	require.Equal(t, `"4"`, a.header.Get("Etag"))
	r.post("/v1/policies/team:pay/rollback", `{}`).ok(t, 400)
	r.post("/v1/policies/team:pay/rollback", `{"version": 2}`, "If-Match", `"3"`).ok(t, 412)

	r.post("/v1/check", `{"policy":"team/pay","attributes":{"user":"eve"}}`).ok(t, 200)
	require.JSONEq(t, `{"limits":1}`, r.post("/v1/policies/team:pay/reset", `{"attributes":{"user":"eve"}}`).ok(t, 200).body)
	r.post("/v1/policies/team:pay/reset", `{}`).ok(t, 400)
	r.post("/v1/policies/team:pay/reset", `{"all":true,"attributes":{"user":"eve"}}`).ok(t, 400)
	require.JSONEq(t, `{"name":"team/pay","version":5}`, r.post("/v1/policies/team:pay/reset", `{"all":true}`).ok(t, 200).body)

	r.put("/v1/policies/bad", "limits: {user: {rate: 5/mn}}").ok(t, 400)
	r.request("DELETE", "/v1/policies/team:pay", "", "If-Match", `"1"`).ok(t, 412)
	require.Contains(t, r.request("DELETE", "/v1/policies/team:pay?reset=true", "").ok(t, 200).body, "6")
	r.request("DELETE", "/v1/policies/team:pay", "").ok(t, 404)
}

func TestPolicyFiles(t *testing.T) {
	r := newManaged(t, server.Config{})
	file := "policies: {a: {limits: {all: {rate: 5/h}}}, b: {limits: {all: {rate: 6/h}}}}"
	send := func(path, text string) answer {
		return r.request("POST", path, text, "Content-Type", "application/json")
	}
	require.JSONEq(t, `{"findings":[]}`, send("/v1/policies:check", file).ok(t, 200).body)
	require.Contains(t, send("/v1/policies:check", "policies: {a: {limits: {all: {rate: 5/x}}}}").ok(t, 200).body, "limits.all.rate")
	require.Contains(t, send("/v1/policies:load?dry_run=true", file).ok(t, 200).body, `"changes":["a: `)
	require.JSONEq(t, `{"policies":[]}`, r.request("GET", "/v1/policies", "").body)
	require.JSONEq(t, `{"policies":[{"name":"a","version":1},{"name":"b","version":1}]}`, send("/v1/policies:load", file).ok(t, 200).body)
	require.JSONEq(t, `{"policies":[{"name":"a","version":1},{"name":"b","version":1}]}`, r.request("GET", "/v1/policies", "").body)
	send("/v1/policies:load", "policies: [").ok(t, 400)
	big := "policies: {a: {limits: {all: {rate: 5/h}}}} #" + strings.Repeat("x", 16<<20)
	send("/v1/policies:load", big).ok(t, 413)
	send("/v1/policies:load", big[:1<<20]).ok(t, 200)
}

func TestOverrides(t *testing.T) {
	r := newManaged(t, server.Config{})
	r.policy("shop", "{limits: {user: {by: user, rate: 5/m}}}")
	send := func(method, path, body string) answer {
		if body == "" {
			return r.request(method, path, "")
		}
		return r.request(method, path, body, "Content-Type", "application/json")
	}
	const shop = "/v1/overrides/shop"
	send("PUT", shop, `{"limit":"user","rate":"50/m","until":"2099-01-01T00:00:00Z","attributes":{"user":"eve"}}`).ok(t, 200)
	require.JSONEq(t, `{"id":"limit:user;user=eve","kind":"limit","limit":"user","rate":"50/m","until":"2099-01-01T00:00:00Z","over":false,"sleeps":false,"attributes":{"user":"eve"}}`,
		send("GET", shop+"?limit=user&attributes.user=eve", "").ok(t, 200).body)
	send("PUT", shop, `{"percent":50}`).ok(t, 200)
	require.Contains(t, send("GET", shop+"?scale=true", "").ok(t, 200).body, `"percent":50`)
	send("GET", shop+"?limit=user&attributes.user=bob", "").ok(t, 404)

	// A list can be sent back as it is.
	list := send("GET", shop, "").ok(t, 200)
	require.Len(t, list.decode(t)["overrides"], 2)
	send("DELETE", shop+"?scale=true", "").ok(t, 200)
	send("DELETE", shop+"?limit=user&attributes.user=eve", "").ok(t, 200)
	send("DELETE", shop+"?scale=true", "").ok(t, 404)
	require.JSONEq(t, `{"overrides":[]}`, send("GET", shop, "").ok(t, 200).body)
	require.JSONEq(t, `{"set":2,"errors":[]}`, send("POST", shop, list.body).ok(t, 200).body)
	page := send("GET", shop+"?count=1", "").ok(t, 200)
	require.Contains(t, page.body, `{"overrides":[{"id":"limit:user;user=eve",`)
	require.Len(t, page.decode(t)["overrides"], 1)
	require.Contains(t, send("GET", shop+"?after=limit:user%3Buser%3Deve", "").ok(t, 200).body, `{"overrides":[{"id":"scale",`)

	// Each by itself, if all are right in themselves.
	a := send("POST", shop, `{"overrides":[{"limit":"user","rate":"9/m","attributes":{"user":"x"}},{"limit":"nothing","rate":"9/m"}]}`)
	require.Equal(t, 422, a.status)
	require.Contains(t, a.body, `{"set":1,"errors":[{"index":1,"code":"ERR","detail":"policy 'shop' has no limit 'nothing'"}]}`)
	for _, bad := range []string{`{}`, `{"limit":"user"}`, `{"rate":"5/m"}`, `{"limit":"user","rate":"5/m","percent":3}`, `{"percent":3,"percent":4}`,
		`{"percent":3} x`, `{"prcent":3}`, `[]`, `{"limit":"user","rate":"5/m","attributes":{"user":1.5}}`, `{"limit":"user","rate":"5/m","attributes":{"user":[]}}`,
		`{"limit":"user","rate":"5/m","attributes":{"UNTIL":"2099-01-01T00:00:00Z","user":"x"}}`, `{"limit":"user","rate":"5/m","attributes":{"until":"2099-01-01T00:00:00Z"}}`, `{"limit":"user","rate":"5/m","attributes":{"cost":3}}`} {
		send("PUT", shop, bad).ok(t, 400)
	}
	for _, bad := range []string{"?tier=yes", "?limit=user&tier=true", "?limit=user&attributes.COST=1", "?tier=", "?attributes.user=x", "?count=0", "?count=100001", "?foo=1", "?count=1&count=2", "?%zz"} {
		send("GET", shop+bad, "").ok(t, 400)
	}
	send("DELETE", shop, "").ok(t, 400)
	send("PUT", "/v1/overrides/nothing", `{"percent":50}`).ok(t, 404)
}

func TestSeeing(t *testing.T) {
	r := newManaged(t, server.Config{})
	r.policy("pay", "{limits: {user: {by: user, rate: 1/h}}}")
	for range 2 {
		r.post("/v1/check", `{"policy":"pay","attributes":{"user":"eve"}}`).ok(t, 200)
	}
	a := r.post("/v1/explain", `{"policy":"pay","attributes":{"user":"eve"}}`).ok(t, 200)
	require.Equal(t, "limit", a.decode(t)["reason"])
	key := a.decode(t)["limits"].([]any)[0].(map[string]any)["key"].(string)
	a = r.post("/v1/explain", fmt.Sprintf(`{"key":%q}`, key)).ok(t, 200)
	require.Equal(t, "policy", a.decode(t)["type"])
	a = r.request("GET", "/v1/explain?policy=pay&attributes.user=eve", "").ok(t, 200)
	require.Equal(t, key, a.decode(t)["limits"].([]any)[0].(map[string]any)["key"])
	require.Equal(t, "policy", r.request("GET", "/v1/explain?key="+url.QueryEscape(key), "").ok(t, 200).decode(t)["type"])
	r.request("GET", "/v1/explain?key=none", "").ok(t, 404)
	r.request("GET", "/v1/explain?hold=pay;x", "").ok(t, 400) // a semicolon ends no parameter
	r.request("GET", "/v1/explain?hold=pay%3Bx", "").ok(t, 404)
	for _, bad := range []string{"", "?key=a&policy=pay", "?key=a&attributes.user=x", "?policy=pay&user=eve", "?key=a&key=b", "?policy=pay&attributes.COST=1"} {
		r.request("GET", "/v1/explain"+bad, "").ok(t, 400)
	}
	for _, option := range []string{"COST", "cost", "Peek"} {
		r.post("/v1/explain", `{"policy":"pay","attributes":{"`+option+`":"1"}}`).ok(t, 400)
	}
	r.policy("edge", "{descriptors: [{key: COST, rate_limit: {unit: hour, requests_per_unit: 1}}]}")
	require.Equal(t, "counted", r.post("/v1/explain", `{"policy":"edge","attributes":{"COST":"1"}}`).ok(t, 200).decode(t)["applies"])
	r.post("/v1/explain", `{"key":"none"}`).ok(t, 404)
	r.post("/v1/explain", `{"hold":"pay;x"}`).ok(t, 404)
	for _, bad := range []string{`{}`, `{"key":"a","policy":"pay"}`, `{"key":"a","attributes":{"user":"x"}}`, `{"policy":"pay","attributes":[]}`} {
		r.post("/v1/explain", bad).ok(t, 400)
	}

	require.Eventually(t, func() bool {
		return strings.Contains(r.request("GET", "/v1/top?by=denied&policy=pay&count=5", "").body, key)
	}, 10*time.Second, 20*time.Millisecond)
	r.request("GET", "/v1/top?by=all", "").ok(t, 400)
	r.request("GET", "/v1/top?count=0", "").ok(t, 400)
	a = r.request("GET", "/v1/now", "").ok(t, 200)
	require.Equal(t, "n1", a.decode(t)["node"])
	r.request("GET", "/v1/cluster", "").ok(t, 404)
	require.JSONEq(t, `{"every_ms":5000,"points":[]}`, r.request("GET", "/v1/history", "").ok(t, 200).body)
	r.request("GET", "/v1/history?count=1", "").ok(t, 400)
}

// Counts begin with the limits that denied most calls, or would have.
func TestCountsOfLimits(t *testing.T) {
	r := newManaged(t, server.Config{})
	counted := func(query string) (limits []string) {
		for _, one := range r.request("GET", "/v1/counts"+query, "").ok(t, 200).decode(t)["limits"].([]any) {
			limits = append(limits, fmt.Sprint(one.(map[string]any)["policy"], " ", one.(map[string]any)["limit"]))
		}
		return limits
	}
	require.Equal(t, []string{"pay soft", "shop user", "pay user"}, counted(""))
	require.Equal(t, []string{"pay soft", "pay user"}, counted("?policy=pay"))
	require.Equal(t, []string{"pay soft"}, counted("?count=1"))
	require.JSONEq(t, `{"limits":[]}`, r.request("GET", "/v1/counts?policy=none", "").ok(t, 200).body)
	for _, bad := range []string{"?count=0", "?count=x", "?limit=user"} {
		r.request("GET", "/v1/counts"+bad, "").ok(t, 400)
	}
}

func TestMethodsAndBodies(t *testing.T) {
	r := newManaged(t, server.Config{})
	a := r.request("PATCH", "/v1/policies/p", "").ok(t, 405)
	require.Equal(t, "DELETE, GET, PUT", a.header.Get("Allow"))
	r.request("POST", "/v1/now", "").ok(t, 405)
	r.request("PUT", "/v1/policies/p", "x", "Content-Type", "text/plain").ok(t, 415)
	r.request("PUT", "/v1/policies/p", "x").ok(t, 415)
	r.put("/v1/policies/p", "").ok(t, 400)
	r.request("DELETE", "/v1/policies/p", "x").ok(t, 400)
	r.put("/v1/policies/p", strings.Repeat(" ", 128<<10+1)).ok(t, 413)
	r.request("GET", "/v1/policies/a/b", "").ok(t, 404)
	r.request("GET", "/v1/policies/p/nothing", "").ok(t, 404)
	r.post("/v1/explain", `{"key":"`+strings.Repeat(`x`, 64<<10)+`"}`).ok(t, 413)
	r.post("/v1/explain", strings.Repeat(`[`, 1000)).ok(t, 400)
	r.post("/v1/explain", "{\"key\":\"\xff\"}").ok(t, 400)
	require.Equal(t, http.StatusOK, r.request("GET", "/v1/openapi.yaml", "").status)
}

// Slow senders of bodies keep nobody from changing or reading policies.
func TestSlowBodiesOfPolicies(t *testing.T) {
	r := newManaged(t, server.Config{})
	for i := range 40 {
		c := r.dial()
		request := "PUT /v1/policies/slow"
		if i%10 == 0 {
			request = "POST /v1/policies:check"
		}
		_, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/yaml\r\nContent-Length: 100000\r\n\r\n{", request)
		require.NoError(t, err)
	}
	time.Sleep(100 * time.Millisecond)
	r.request("GET", "/v1/policies", "").ok(t, 200)
	r.put("/v1/policies/p", "{limits: {all: {rate: 1/h}}}").ok(t, 200)
	r.request("POST", "/v1/policies:check", "policies: {}", "Content-Type", "application/yaml").ok(t, 200)
}

// waiting is a Caller whose commands about policies wait.
type waiting struct {
	*server.Caller
	come, release chan struct{}
}

func (w waiting) PipelineAs(ctx context.Context, who server.Client, dst, commands []byte) ([]byte, error) {
	w.come <- struct{}{}
	<-w.release
	return w.Caller.PipelineAs(ctx, who, dst, commands)
}

// Two heavy requests run at a time.
func TestHeavyRequestsTakeTurns(t *testing.T) {
	r := newManaged(t, server.Config{})
	w := waiting{r.caller, make(chan struct{}), make(chan struct{})}
	_, r.url = start(t, web.Config{Decider: w, View: view{}, Local: true})
	answers := make(chan answer, 3)
	check := func() {
		go func() {
			answers <- r.request("POST", "/v1/policies:check", "policies: {}", "Content-Type", "application/yaml")
		}()
	}
	for range 2 {
		check()
		<-w.come
	}
	check()
	select {
	case a := <-answers:
		require.Equal(t, "BUSY", a.ok(t, 503).decode(t)["code"])
	case <-w.come:
		close(w.release)
		t.Fatal("a third one is under way")
	}
	r.post("/v1/simulate", `{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0}]}`).ok(t, 503)
	close(w.release)
	for range 2 {
		a := <-answers
		a.ok(t, 200)
	}
	r.post("/v1/simulate", `{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0}]}`).ok(t, 200)
}

// One caller changes 100 times at once, and then 10 times a second; others are not
// held up, and reading is not limited.
func TestChangesAreLimited(t *testing.T) {
	r := newManaged(t, server.Config{})
	var last answer
	for range 150 {
		if last = r.request("DELETE", "/v1/policies/none", ""); last.status != 404 {
			break
		}
	}
	last.ok(t, 429)
	require.NotEmpty(t, last.header.Get("Retry-After"))
	r.request("GET", "/v1/policies", "").ok(t, 200)
}
