package lua

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate-io/headgate/internal/redistest"
)

// harness runs ARGV[1] as a chunk and shows the types and values of its
// results, or the error.
const harness = `
local function show(...)
  local out = {}
  for i = 1, select('#', ...) do
    local v = select(i, ...)
    local s = tostring(v)
    if type(v) == 'table' or type(v) == 'function' or type(v) == 'thread' then s = '' end
    out[i] = type(v) .. ' ' .. s
  end
  return table.concat(out, '; ')
end
local f, err = loadstring(ARGV[1], '@user_script')
if not f then return 'syntax: ' .. err end
return show(pcall(f))`

// oracle runs chunks in a real redis-server.
type oracle struct {
	t      testing.TB
	server *redis.Client
}

func newOracle(t testing.TB) *oracle { return &oracle{t, dialOracle(t)} }

// dialOracle starts a redis-server and returns a client of it that waits as long as a
// chunk runs, and sends it once.
func dialOracle(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t), Protocol: 2, ReadTimeout: -1, MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	return c
}

// show is what Redis gives for a chunk in the harness.
func (o *oracle) show(chunk string) string {
	s, err := o.server.Eval(o.t.Context(), harness, nil, chunk).Text()
	if err != nil {
		return "error: " + err.Error()
	}
	return s
}

// evaluator runs chunks in the harness here.
type evaluator struct {
	thread  *Thread
	harness *Proto
	argv    Variable
	limits  Limits
}

func newEvaluator(t testing.TB) *evaluator {
	env := NewEnvironment()
	e := &evaluator{argv: env.Variable("ARGV"), limits: Limits{Steps: 50e6, Memory: 64 << 20}}
	env.Variable("KEYS")
	p, err := env.Compile(harness)
	if err != nil {
		t.Fatal(err)
	}
	e.harness, e.thread = p, NewThread(env)
	return e
}

func (e *evaluator) show(chunk string) string {
	t := e.thread
	t.Reset(e.limits)
	argv := t.NewTable(1, 0)
	argv.SetInt(t, 1, String(chunk))
	t.SetGlobal(e.argv, argv.Value())
	results, err := t.Run(e.harness)
	if err != nil {
		return "error: " + err.Error()
	}
	return results[0].Text()
}

// TestSemantics runs the chunks below, one a line, here and in Redis.
func TestSemantics(t *testing.T) {
	o, e := newOracle(t), newEvaluator(t)
	for _, chunk := range semantics() {
		want, got := o.show(chunk), e.show(chunk)
		if got != want {
			t.Errorf("%s\n  Redis %s\n  here  %s", chunk, want, got)
		}
	}
}

// semantics are the chunks; ¶ is a line break.
func semantics() []string {
	var list []string
	for _, line := range strings.Split(chunks, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, strings.ReplaceAll(line, "¶", "\n"))
		}
	}
	return list
}
