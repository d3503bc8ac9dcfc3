package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server"
)

// nobody runs no command: a trial asks for none.
type nobody struct{ t testing.TB }

func (n nobody) PipelineAs(context.Context, server.Client, []byte, []byte) ([]byte, error) {
	n.t.Fatal("a command")
	return nil, nil
}

// simulated answers a trial.
func simulated(t testing.TB, body string) (map[string]any, error) {
	a := New(nobody{t}, nil)
	answer, err := a.simulate(&Request{Request: httptest.NewRequest(http.MethodPost, "/v1/simulate", nil), Body: []byte(body)})
	if err != nil {
		return nil, err
	}
	var out map[string]any
	require.NoError(t, json.Unmarshal(answer.Body, &out))
	return out, nil
}

func TestSimulate(t *testing.T) {
	out, err := simulated(t, `{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0,"times":3},{"at_ms":30000},{"at_ms":60000}]}`)
	require.NoError(t, err)
	by := out["algorithms"].(map[string]any)
	require.Len(t, by, 5)
	for algorithm, want := range map[string][]float64{"token": {2, 1, 1}, "leaky": {2, 1, 1}, "fixed": {2, 0, 1}, "log": {2, 0, 1}, "sliding": {2, 0, 0}} {
		for i, o := range by[algorithm].([]any) {
			require.Equal(t, want[i], o.(map[string]any)["passed"], "%s, step %d", algorithm, i)
		}
	}
	out, err = simulated(t, `{"policies":"policies: {p: {limits: {user: {by: user, rate: 1/h}}}}","trace":[
		{"at_ms":0,"policy":"p","attributes":{"user":"a"},"times":2},{"at_ms":0,"policy":"p","attributes":{"user":"b"}},{"at_ms":3600000,"policy":"p","attributes":{"user":"a"}}]}`)
	require.NoError(t, err)
	var passed []any
	for _, s := range out["steps"].([]any) {
		passed = append(passed, s.(map[string]any)["passed"])
	}
	require.Equal(t, []any{1.0, 1.0, 1.0}, passed)
}

func TestWrongTrials(t *testing.T) {
	steps := func(n int, step string) string { return strings.TrimSuffix(strings.Repeat(step+",", n), ",") }
	for body, want := range map[string]string{
		`{}`: "limit or policies is required",
		`{"limit":{"limit":2,"period":"1m"},"trace":[]}`:                                                "trace must have 1 to 1000 steps",
		`{"limit":{"limit":2,"period":"1m"},"trace":[` + steps(1001, `{"at_ms":0}`) + `]}`:              "trace must have 1 to 1000 steps",
		`{"limit":{"limit":2,"period":"1m"},"trace":[` + steps(11, `{"at_ms":0,"times":1000}`) + `]}`:   "at most 10000 calls",
		`{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":1},{"at_ms":0}]}`:                         "at_ms must not go back",
		`{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0,"times":1001}]}`:                        "times must be 1 to",
		`{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0,"cost":-1}]}`:                           "cost must be 0 or more",
		`{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0,"policy":"p"}]}`:                        "not allowed with limit",
		`{"limit":{"limit":2,"period":"x"},"trace":[{"at_ms":0}]}`:                                      "period: ",
		`{"limit":{"limit":-2,"period":"1m"},"trace":[{"at_ms":0}]}`:                                    "step 1: limit must be 0 or more",
		`{"limit":{"limit":2,"period":"1m"},"start":"x","trace":[{"at_ms":0}]}`:                         "start must be a time",
		`{"policies":"policies: {p: {}}","trace":[{"at_ms":0,"policy":"p"}]}`:                           "policies: ",
		`{"policies":"policies: {p: {limits: {all: {rate: 1/h}}}}","trace":[{"at_ms":0,"policy":"q"}]}`: "there is no such policy",
		`{"limit":{"limit":2,"period":"1m","limit":3},"trace":[{"at_ms":0}]}`:                           "given twice",
	} {
		_, err := simulated(t, body)
		require.ErrorContains(t, err, want, body)
	}
}

// Whatever a body is, it is read or refused, and never read in two ways: no name is
// in an object twice.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"limit":{"limit":2,"period":"1m"},"trace":[{"at_ms":0,"times":3}]}`, `{"a":[{"a":1},{"a":null}]}`, `{"a":1,"a":2}`, `[`, `"\u00`, `{"policies":"policies: {}","trace":[{"at_ms":0,"policy":"p","attributes":{"u":true}}]}`, "1 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var any map[string]json.RawMessage
		if decode(body, &any) == nil {
			require.True(t, json.Valid(body))
			b, err := json.Marshal(any)
			require.NoError(t, err)
			require.NoError(t, decode(b, &any), fmt.Sprintf("%q", b))
		}
		if len(body) < 1<<10 {
			_, _ = simulated(t, string(body))
		}
	})
}
