package web_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// A wrong request gets an error that says why, and nothing is charged.
func TestBadRequests(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {user: {by: user, rate: 5/h}}}")
	f := func(body string, status int, detail string) {
		t.Helper()
		a := r.post("/v1/check", body)
		require.Equal(t, status, a.status, a.body)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		p := a.decode(t)
		require.Equal(t, fmt.Sprint(status), fmt.Sprint(p["status"]))
		require.Contains(t, p["detail"], detail)
	}
	f(``, 400, "the body is empty")
	f(`{`, 400, "unexpected EOF")
	f(`[]`, 400, `an object is expected, at byte 0`)
	f(`{}`, 400, "policy is missing")
	f(`{"policy":"p"} x`, 400, "unexpected data after the JSON text")
	f(`{"polcy":"p"}`, 400, `unknown field "polcy"; known fields: policy, attributes`)
	f(`{"policy":"p","ttl":"1s"}`, 400, `unknown field "ttl"`)
	f(`{"policy":"p","policy":"q"}`, 400, `duplicate object member name "policy"`)
	f(`{"policy":"p","cost":1.5}`, 400, "without a fraction")
	f(`{"policy":"p","cost":"1"}`, 400, "cost: a whole number is expected")
	f(`{"policy":"p","cost":99999999999999999999}`, 400, "out of range")
	f(`{"policy":"p","cost":-1}`, 400, "COST")
	f(`{"policy":"p","fail":"opne"}`, 400, "fail: must be open, closed or local")
	f(`{"policy":"p","respond":"yes"}`, 400, "respond: must be verdict or status")
	f(`{"policy":"p","id":""}`, 400, "id: must have 1 to 128 bytes")
	f(`{"policy":"p","id":"x","peek":true}`, 400, "PEEK and ID exclude each other")
	f(`{"policy":"p","force":true,"peek":true}`, 400, "FORCE, PEEK and ID exclude each other")
	f(`{"policy":"p","attributes":{"user":[]}}`, 400, "the value must be a string")
	for _, twice := range []string{`"user":"a","user":"b"`, `"user":null,"user":"b"`, `"user":"b","user":null`, `"user":"","user":"b"`, `"x":null,"x":null`} {
		f(`{"policy":"p","attributes":{`+twice+`}}`, 400, "duplicate object member name")
	}
	f(`{"policy":"p","attributes":{"Cost":null}}`, 400, `"Cost"`)
	// The words of options are no attributes, whatever their case.
	for _, word := range []string{"cost", "id", "peek", "force", "sync", "async", "fail", "ttl", "COST", "Peek"} {
		f(`{"policy":"p","attributes":{"`+word+`":"open"}}`, 400, `"`+word+`"`)
	}
	f("{\"policy\":\"\xff\"}", 400, "invalid UTF-8")
	f(`{"policy":"q"}`, 404, "there is no policy 'q'")
	f(`{"policy":"p","attributes":{"user":"`+strings.Repeat("x", 4097)+`"}}`, 400, "at most 4096 bytes")
	f(`{"policy":"p","attributes":{"user":"`+strings.Repeat("x", 64<<10)+`"}}`, 413, "longer than 65536 bytes")
	q, err := http.NewRequest("POST", r.url+"/v1/check", io.MultiReader(strings.NewReader(`{"policy":"p","attributes":{"user":"`+strings.Repeat("x", 64<<10)+`"}}`)))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	chunked, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	chunked.Body.Close()
	require.Equal(t, 413, chunked.StatusCode, "its length is not announced")
	a := r.post("/v1/reserve", `{"policy":"p","ttl":""}`)
	require.Equal(t, 400, a.status)
	require.Contains(t, a.body, "ttl: ")
	require.Equal(t, int64(5), r.run("RL.CHECK", "p", "user", "a", "COST", "0").Field("remaining").Int)

	says := func(status int, detail string, a answer) {
		t.Helper()
		require.Equal(t, status, a.status, a.body)
		require.Contains(t, a.decode(t)["detail"], detail)
	}
	says(404, "no such path: see /v1/openapi.yaml", r.request("GET", "/v1/nothing", ""))
	says(405, "use POST", r.request("GET", "/v1/check", ""))
	says(415, "the body must have Content-Type: application/json", r.request("POST", "/v1/check", `{}`))
	says(400, "Idempotency-Key cannot name a batch", r.request("POST", "/v1/check:batch", `{"checks":[]}`, "Content-Type", "application/json", "Idempotency-Key", "x"))
	require.Equal(t, 415, r.request("POST", "/v1/check", `{}`).status)
	require.Equal(t, 415, r.request("POST", "/v1/check", `{}`, "Content-Type", "text/plain").status)
	require.Equal(t, 404, r.request("POST", "/v1/check", `{"policy":"q"}`, "Content-Type", "Application/JSON; charset=utf-8").status)
	a = r.request("GET", "/v1/check", "")
	require.Equal(t, 405, a.status)
	require.Equal(t, "POST", a.header.Get("Allow"))
	require.Equal(t, 404, r.request("GET", "/v1/nothing", "").status)
}

// The port asks for the password that the Redis protocol asks for.
func TestPassword(t *testing.T) {
	r := newRig(t, server.Config{Runtime: server.Runtime{RequirePass: "secret", AdminPass: "boss"}}, web.Config{})
	r.policy("p", "{limits: {all: {rate: 100/h}}}")
	for header, want := range map[string]int{
		"": 401, "Bearer secret": 200, "bearer  secret": 200, "Bearer boss": 200, "Bearer secre": 401, "Bearer ": 401, "Bearer": 401,
		"Basic OnNlY3JldA==":         200, // :secret
		"Basic ZGVmYXVsdDpzZWNyZXQ=": 200, // default:secret
		"Basic YWRtaW46Ym9zcw==":     200, // admin:boss
		"Basic YWRtaW46c2VjcmV0":     401, // admin:secret
		"Basic Ym9iOnNlY3JldA==":     401, // bob:secret
		"Basic x":                    401, "Digest secret": 401, "secret": 401,
	} {
		a := r.post("/v1/check", `{"policy":"p"}`, "Authorization", header)
		require.Equal(t, want, a.status, "%q: %s", header, a.body)
		if want == 401 {
			require.Equal(t, `Bearer realm="headgate"`, a.header.Get("WWW-Authenticate"))
		}
	}
	for path, want := range map[string]int{"/v1/check:batch": 400, "/v1/reserve": 200, "/v1/commit": 400, "/v1/cancel": 400, "/v1/auth/p": 200, "/v1/auth403/p": 200} {
		require.Equal(t, want, r.post(path, `{"policy":"p"}`, "Authorization", "Bearer secret").status, path)
		if want = 401; path == "/v1/auth403/p" {
			want = 403
		}
		require.Equal(t, want, r.post(path, `{"policy":"p"}`).status, path)
	}
	// Wrong ones are answered late, as by AUTH; the others at once.
	slow := func(header string) bool {
		began := time.Now()
		require.Equal(t, 401, r.post("/v1/check", `{"policy":"p"}`, "Authorization", header).status)
		return time.Since(began) >= 90*time.Millisecond
	}
	require.True(t, slow("Bearer x"))
	require.True(t, slow("Basic OnNlY3JldDI="))
	require.False(t, slow(""))
	require.Equal(t, 200, r.request("GET", "/healthz", "").status)
	// Without a password Authorization is somebody else's.
	r.server.Configure(server.Runtime{})
	for _, header := range []string{"", "Basic x", "Bearer y", "Basic Ym9iOnNlY3JldA=="} {
		require.Equal(t, 200, r.post("/v1/check", `{"policy":"p"}`, "Authorization", header).status)
	}
}

func TestBatch(t *testing.T) {
	r := newRig(t, server.Config{}, web.Config{})
	r.policy("p", "{limits: {user: {by: user, rate: 2/h}}}")
	a := r.post("/v1/check:batch", `{"checks":[{"policy":"p","attributes":{"user":"a"}},{"policy":"q"},{"policy":"p","attributes":{"Peek":"x"}},
		{"policy":"p","attributes":{"user":"a"},"cost":2},{"policy":"p","attributes":{"user":"a"}},{}]}`)
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	var statuses []string
	results := a.decode(t)["results"].([]any)
	for _, one := range results {
		statuses = append(statuses, fmt.Sprint(one.(map[string]any)["status"]))
	}
	require.Equal(t, []string{"200", "404", "400", "429", "200", "400"}, statuses)
	require.Equal(t, "NOPOLICY", results[1].(map[string]any)["problem"].(map[string]any)["code"])
	require.Equal(t, false, results[3].(map[string]any)["verdict"].(map[string]any)["allowed"])
	require.Equal(t, "0", fmt.Sprint(results[4].(map[string]any)["verdict"].(map[string]any)["remaining"]), "in order")

	// A batch with invalid JSON runs nothing.
	a = r.post("/v1/check:batch", `{"checks":[{"policy":"p","attributes":{"user":"b"}},{"polic":"p"}]}`)
	require.Equal(t, 400, a.status)
	require.Contains(t, a.body, "check 2: unknown field")
	require.Equal(t, 400, r.post("/v1/check:batch", `{"checks":[{"policy":"p","respond":"status"}]}`).status)
	for _, body := range []string{`{}`, `{"checks":null}`} {
		a = r.post("/v1/check:batch", body)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.body, "checks is missing")
	}
	require.Equal(t, int64(2), r.run("RL.CHECK", "p", "user", "b", "COST", "0").Field("remaining").Int)

	many := func(n int) string {
		return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"policy":"p","attributes":{"user":"c"}},`, n), ",") + `]}`
	}
	require.Equal(t, `{"results":[]}`, r.post("/v1/check:batch", many(0)).body)
	a = r.post("/v1/check:batch", many(1000))
	require.Equal(t, 200, a.status)
	results = a.decode(t)["results"].([]any)
	require.Len(t, results, 1000)
	passed := 0
	for _, one := range results {
		if one.(map[string]any)["verdict"].(map[string]any)["allowed"] == true {
			passed++
		}
	}
	require.Equal(t, 2, passed)
	require.Equal(t, 400, r.post("/v1/check:batch", many(1001)).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.post("/v1/check:batch", `{"checks":[]`+strings.Repeat(" ", 1<<20)+`}`).status)
}
