package envoy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// model answers as a model does: in one piece, or as a stream if the request wants one. The
// header field Tokens says how many tokens it says it took; without it, it says nothing.
func model(w http.ResponseWriter, r *http.Request) {
	usage := "null"
	if tokens := r.Header.Get("Tokens"); tokens != "" {
		usage = fmt.Sprintf(`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":%s}`, tokens)
	}
	if r.Header.Get("Stream") == "" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range 3 {
		fmt.Fprint(w, `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"hi"}}],"usage":null}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Fprintf(w, "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", usage)
}

// The tokens that a model reports are charged behind its answer, in one piece or a stream.
func TestTokens(t *testing.T) {
	t.Parallel()
	g := startWith(t, "llm.yaml", "llm-policy.yaml", model)
	c := redis.NewClient(&redis.Options{Addr: g.headgate.Addr, Protocol: 2})
	defer c.Close()
	charged := func(team string) int64 {
		reply, err := c.Do(t.Context(), "RL.DESCRIPTORS", "llm", 0, 1, 1, "team", team, 0, "-").Slice()
		require.NoError(t, err)
		return 1000 - reply[4].([]any)[0].([]any)[5].(int64)
	}
	ask := func(team string, header ...string) answer {
		return g.ask("127.0.0.2", "POST", "/v1/chat/completions", "{}", append(header, "X-Team", team)...)
	}
	a := ask("red", "Tokens", "400")
	require.Equal(t, 200, a.status, a.body)
	require.Eventually(t, func() bool { return charged("red") == 400 }, patience, 10*time.Millisecond)
	a = ask("red", "Tokens", "700", "Stream", "1")
	require.Equal(t, 200, a.status)
	require.True(t, strings.HasSuffix(a.body, "data: [DONE]\n\n"), a.body)
	require.Eventually(t, func() bool { return ask("red", "Tokens", "1").status == 429 }, patience, 10*time.Millisecond)
	calls := g.calls.Load()
	require.Equal(t, 429, ask("red", "Tokens", "1").status)
	require.Equal(t, calls, g.calls.Load(), "the model is not called")

	// Without a report, nothing is charged.
	for _, stream := range []string{"", "1"} {
		require.Equal(t, 200, ask("blue", "Stream", stream).status)
	}
	require.Equal(t, 200, ask("blue", "Tokens", "5").status)
	require.Eventually(t, func() bool { return charged("blue") > 0 }, patience, 10*time.Millisecond)
	require.Equal(t, int64(5), charged("blue"))

	// Without a team there is no limit.
	require.Equal(t, 200, g.ask("127.0.0.2", "POST", "/v1/chat/completions", "{}", "Tokens", "5000").status)
}
