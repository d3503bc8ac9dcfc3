// Package litellm_test runs the LiteLLM proxy with the example.
package litellm_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

const (
	// program is where scripts/litellm.sh puts LiteLLM.
	program  = ".venv/bin/litellm"
	patience = time.Minute
	// caller is what LiteLLM calls those who use its master key. Others are the hashes of
	// their keys, which LiteLLM keeps in a database of its own.
	caller = "litellm_proxy_master_key"
	key    = "sk-6dd1b9e0b7f24e1f8a3c5d7092bb41aa"
)

// proxy is the LiteLLM proxy, and the server that it asks.
type proxy struct {
	t        *testing.T
	url      string
	headgate *hgtest.Server
	rdb      *redis.Client
}

// start runs LiteLLM with a model that answers, and one that fails.
func start(t *testing.T) *proxy {
	if _, err := os.Stat(program); err != nil {
		t.Skip("LiteLLM is not here: scripts/litellm.sh installs it, which takes minutes and 700 MB")
	}
	p := &proxy{t: t}
	dir := t.TempDir()
	policy, err := os.ReadFile("../holds/llm.yaml")
	require.NoError(t, err)
	policies := filepath.Join(dir, "llm.yaml")
	// So that nothing comes back while the test counts.
	counted := strings.NewReplacer("rate: 90_000/m", "algorithm: fixed, align: first, rate: 90_000/d", "rate: 30_000/m", "algorithm: fixed, align: first, rate: 30_000/d").Replace(string(policy))
	require.Equal(t, 2, strings.Count(counted, "fixed"))
	require.NoError(t, os.WriteFile(policies, []byte(counted), 0o600))
	p.headgate, err = hgtest.Start(hgtest.Config{Args: []string{"--policies", policies}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.headgate.Stop() })
	p.rdb = redis.NewClient(&redis.Options{Addr: p.headgate.Addr, Protocol: 2})
	t.Cleanup(func() { _ = p.rdb.Close() })

	callback, err := os.ReadFile("headgate_litellm.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "headgate_litellm.py"), callback, 0o600))
	config, err := os.ReadFile("config.yaml")
	require.NoError(t, err)
	const models = "model_list:\n"
	require.Contains(t, string(config), models)
	text := strings.NewReplacer("api_key: os.environ/OPENAI_API_KEY", "api_key: none, mock_response: hi there",
		models, models+"  - model_name: large-3\n    litellm_params: {model: openai/gpt-4o, api_key: none, mock_response: litellm.InternalServerError}\n").Replace(string(config))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600))

	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p.url = "http://" + addrs[0]
	_, port, _ := strings.Cut(addrs[0], ":")
	path, err := filepath.Abs(program)
	require.NoError(t, err)
	cmd := subprocess.Command(path, "--config", "config.yaml", "--host", "127.0.0.1", "--port", port)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "HEADGATE_URL=redis://"+p.headgate.Addr, "LITELLM_MASTER_KEY="+key, "LITELLM_LOCAL_MODEL_COST_MAP=True")
	log := new(logbuf.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	litellm, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = litellm.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		a, err := http.Get(p.url + "/health/liveliness")
		if err != nil {
			return false
		}
		a.Body.Close()
		return a.StatusCode == 200
	}, patience, 100*time.Millisecond, "%s", log)
	return p
}

// ask asks a model, and returns the status, the header and the body of the answer.
func (p *proxy) ask(body string) (int, http.Header, string) {
	p.t.Helper()
	q, err := http.NewRequest("POST", p.url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(p.t, err)
	q.Header.Set("Authorization", "Bearer "+key)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	require.NoError(p.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(p.t, err)
	return a.StatusCode, a.Header, string(text)
}

// left returns how many of the 90,000 tokens are left.
func (p *proxy) left() int64 {
	reply, err := p.rdb.Do(p.t.Context(), "RL.CHECK", "llm", "key", caller, "tokens", 0, "COST", 0).Slice()
	require.NoError(p.t, err)
	limit := reply[11].([]any)[1].([]any)
	require.Equal(p.t, "tokens", limit[0])
	return limit[3].(int64)
}

// becomes waits until a number of tokens is left.
func (p *proxy) becomes(tokens int64) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.left() == tokens }, patience, 50*time.Millisecond, "%d and not %d are left", p.left(), tokens)
}

// request is a request to a model. Its prompt has 9 tokens.
func request(model string, most int, more string) string {
	return fmt.Sprintf(`{"model": %q, "max_tokens": %d, "messages": [{"role": "user", "content": "say hi"}]%s}`, model, most, more)
}

// The proxy reserves the most that a call can take, and settles what it took. LiteLLM's mock
// takes 30 tokens in one piece. It counts 11 of them in a stream: the words that it sends.
func TestLiteLLM(t *testing.T) {
	t.Parallel()
	p := start(t)
	status, _, body := p.ask(request("large-2", 9000, ""))
	require.Equal(t, 200, status, body)
	require.Contains(t, body, `"total_tokens":30}`)
	p.becomes(89_970)
	status, _, body = p.ask(request("large-2", 9000, `, "stream": true`))
	require.Equal(t, 200, status)
	require.True(t, strings.HasSuffix(strings.TrimSpace(body), "data: [DONE]"), body)
	p.becomes(89_959)

	// A call that fails costs nothing.
	status, _, body = p.ask(request("large-3", 9000, ""))
	require.Equal(t, 500, status, body)
	p.becomes(89_959)

	// Other calls hold half of the limit: the rest is too little for this one.
	require.NoError(t, p.rdb.Do(t.Context(), "RL.RESERVE", "llm", "key", caller, "model", "large-2", "tokens", 15_000, "ID", "other").Err())
	status, header, body := p.ask(request("large-2", 14_980, ""))
	require.Equal(t, 429, status, body)
	require.Contains(t, body, "over the limit large")
	require.NotEmpty(t, header.Get("Retry-After"))
	status, header, _ = p.ask(request("large-2", 15_000, ""))
	require.Equal(t, 429, status)
	require.Empty(t, header.Get("Retry-After"), "no wait helps")

	// Without Headgate, no call passes.
	p.headgate.Kill()
	status, _, body = p.ask(request("large-2", 10, ""))
	require.Equal(t, 500, status, body)
}
