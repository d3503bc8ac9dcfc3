package web_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// spec is the served description, which validates what is sent and answered.
type spec struct {
	*rig
	doc    *openapi3.T
	router routers.Router
}

func newSpec(t *testing.T) *spec {
	r := newRig(t, server.Config{}, web.Config{TrustedProxies: loopback, View: view{}, Local: true})
	a := r.request("GET", "/v1/openapi.yaml", "")
	require.Equal(t, 200, a.status)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	require.NoError(t, err)
	doc.Servers = openapi3.Servers{{URL: r.url}}
	require.NoError(t, doc.Validate(t.Context()))
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return &spec{r, doc, router}
}

// exchange sends a request and validates it and its answer.
func (s *spec) exchange(method, path, body string, header ...string) answer {
	s.t.Helper()
	q, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	route, params, err := s.router.FindRoute(q)
	require.NoError(s.t, err, path)
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	in := &openapi3filter.RequestValidationInput{Request: q, PathParams: params, Route: route, Options: options}
	require.NoError(s.t, openapi3filter.ValidateRequest(s.t.Context(), in), "%s %s", path, body)
	q.Body = io.NopCloser(strings.NewReader(body))
	a, err := http.DefaultClient.Do(q)
	require.NoError(s.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, openapi3filter.ValidateResponse(s.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.StatusCode, Header: a.Header, Body: io.NopCloser(bytes.NewReader(text)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}), "%s %s: %d %s", path, body, a.StatusCode, text)
	return answer{a.StatusCode, a.Header, string(text)}
}

// Each example of the description is sent, and answered as it says.
func TestOpenAPIExamples(t *testing.T) {
	s := newSpec(t)
	policies(s.rig)
	ran := 0
	for path, item := range s.doc.Paths.Map() {
		for method, op := range item.Operations() {
			ran += s.examples(method, op)
		}
		op := item.Post
		if op == nil || op.Extensions["x-answers"] == nil {
			continue
		}
		var answers map[string]struct {
			Status int
			Body   json.RawMessage
		}
		text, err := json.Marshal(op.Extensions["x-answers"])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &answers))
		examples := op.RequestBody.Value.Content["application/json"].Examples
		require.NotEmpty(t, examples, path)
		require.Len(t, answers, len(examples), path)
		for name, example := range examples {
			body, err := json.Marshal(example.Value.Value)
			require.NoError(t, err)
			want, ok := answers[name]
			require.True(t, ok, name)
			a := s.exchange("POST", path, string(body))
			require.Equal(t, want.Status, a.status, "%s: %s", name, a.body)
			if want.Body != nil {
				require.JSONEq(t, string(want.Body), a.body, name)
			}
			ran++
		}
	}
	require.Greater(t, ran, 35)
}

// examples sends the requests that an operation has as x-examples, and returns how
// many there are.
func (s *spec) examples(method string, op *openapi3.Operation) int {
	var list []struct {
		Path   string
		Status int
		Header map[string]string
		Body   json.RawMessage
	}
	text, err := json.Marshal(op.Extensions["x-examples"])
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(text, &list))
	for _, e := range list {
		var header []string
		for name, value := range e.Header {
			header = append(header, name, value)
		}
		a := s.exchange(method, e.Path, string(e.Body), header...)
		require.Equal(s.t, e.Status, a.status, "%s %s: %s", method, e.Path, a.body)
	}
	return len(list)
}

// Every path is described, and asks for its right: see paths.
func TestEveryPathIsDescribed(t *testing.T) {
	s := newSpec(t)
	asked := map[string]bool{}
	for _, p := range paths {
		if p.path == "/metrics" {
			continue
		}
		q, err := http.NewRequest(p.method, s.url+p.path, nil)
		require.NoError(t, err)
		route, _, err := s.router.FindRoute(q)
		require.NoError(t, err, p.path)
		asked[p.method+" "+route.Path] = true
	}
	for path, item := range s.doc.Paths.Map() {
		for method := range item.Operations() {
			// An answer of /v1/events does not end: see TestEventsNeedTheRightToSee.
			require.True(t, asked[method+" "+path] || strings.HasPrefix(path, "/v1/auth") || path == "/v1/events", "%s %s", method, path)
		}
	}
}

// Events are as described.
func TestOpenAPIEvents(t *testing.T) {
	s := newSpec(t)
	require.NotNil(t, s.doc.Paths.Find("/v1/events").Get.Responses.Status(200).Value.Content["text/event-stream"])
	stream := s.stream("")
	s.policy("busy", "{deny: [{user: eve}], limits: {user: {by: user, rate: 2/h, penalty: {after: 1, within: 1m, block: 1h}}, soft: {rate: 1/h, mode: shadow}}}")
	s.run("RL.OVERRIDE", "SET", "busy", "SCALE", "200%")
	s.run("RL.CHECK", "busy", "user", "eve")
	for range 6 {
		s.run("RL.CHECK", "busy", "user", "bob")
	}
	seen := map[string]bool{}
	for len(seen) < 5 { // policy, override, denied, shadow, penalty
		e := stream.next()
		var data any
		require.NoError(t, json.Unmarshal([]byte(e["data"]), &data))
		require.NoError(t, s.doc.Components.Schemas["Event"].Value.VisitJSON(data), e["data"])
		seen[e["event"]] = true
	}
}

// policies makes those of the examples.
func policies(r *rig) {
	r.policy("pay", "{limits: {user: {by: user, rate: 5/h}}}")
	r.policy("llm", "{limits: {tokens: {by: user, rate: 100/h, cost: tokens}}}")
	r.policy("edge", "{limits: {ip: {by: ip, rate: 2/h}}}")
	r.policy("shop", "{limits: {user: {by: user, rate: 5/m}}}")
	r.policy("old", "{limits: {user: {by: user, rate: 5/m}}}")
	r.policy("routes/gate", "{else: deny, attributes: {user: {header: X-User}}, match: {/v1/*: shop, /healthz: allow}}")
}

// Answers of every kind are as described.
func TestOpenAPIAnswers(t *testing.T) {
	s := newSpec(t)
	policies(s.rig)
	s.policy("busy", "{deny: [{user: eve}], limits: {all: {rate: 1/h, status: 503}, soft: {rate: 1/h, mode: soft}}}")
	ask := func(want int, path, body string, header ...string) answer {
		t.Helper()
		a := s.exchange("POST", path, body, header...)
		require.Equal(t, want, a.status, a.body)
		return a
	}
	ask(200, "/v1/check", `{"policy":"busy","attributes":{"user":null,"n":1,"b":true},"cost":null,"fail":"local","sync":true}`)
	ask(200, "/v1/check", `{"policy":"busy"}`)
	ask(503, "/v1/check", `{"policy":"busy","respond":"status"}`)
	ask(403, "/v1/check", `{"policy":"busy","respond":"status","attributes":{"user":"eve"}}`)
	ask(200, "/v1/check", `{"policy":"pay","attributes":{"user":"a"},"cost":5}`, "Idempotency-Key", `"x"`)
	ask(200, "/v1/check", `{"policy":"pay","attributes":{"user":"a"},"cost":5}`, "Idempotency-Key", `x`)
	ask(422, "/v1/check", `{"policy":"pay","attributes":{"user":"a"},"cost":4}`, "Idempotency-Key", `x`)
	ask(429, "/v1/check", `{"policy":"pay","attributes":{"user":"a"},"respond":"status"}`)
	hold := ask(200, "/v1/reserve", `{"policy":"llm","attributes":{"user":"a","tokens":5}}`)
	ask(200, "/v1/commit", `{"hold":"`+hold.decode(t)["hold"].(string)+`","attributes":{"tokens":7}}`)
	hold = ask(200, "/v1/reserve", `{"policy":"llm","attributes":{"user":"a","tokens":5},"id":"7"}`)
	ask(200, "/v1/cancel", `{"hold":"`+hold.decode(t)["hold"].(string)+`"}`)
	for i, want := range []int{200, 200, 429, 403, 429} {
		path := "/v1/auth/edge"
		switch i {
		case 3:
			path = "/v1/auth403/edge"
		case 4:
			path = "/v1/authz/edge/things"
		}
		a := s.exchange("GET", path, "", "X-Forwarded-For", "203.0.113.9")
		require.Equal(t, want, a.status)
	}
}
