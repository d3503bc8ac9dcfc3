package lua_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/script/lua"
)

// The differential tests run the same Lua here and in a real redis-server.

// oracle evaluates Lua in both.
type oracle struct {
	t      testing.TB
	server *redis.Client
	env    *lua.Environment
	thread *lua.Thread
}

func newOracle(t testing.TB) *oracle {
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(t), Protocol: 2, ReadTimeout: -1, MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	env := lua.NewEnvironment()
	return &oracle{t: t, server: c, env: env, thread: lua.NewThread(env)}
}

// shown is a script that returns one string about body: whether it succeeded,
// and its results or its error.
func shown(body string) string {
	return "local r = {pcall(function() " + body + " end)} " +
		"local n = table.maxn(r) for i = 1, n do r[i] = r[i] == nil and 'nil' or tostring(r[i]) end " +
		"return table.concat(r, ' | ')"
}

// ours is what a script returns here.
func (o *oracle) ours(script string) string {
	p, err := o.env.Compile(script)
	if err != nil {
		return "does not compile: " + err.Error()
	}
	o.thread.Reset(lua.Limits{Steps: 1e9, Memory: 64 << 20})
	results, err := o.thread.Run(p)
	if err != nil {
		return err.Error()
	}
	if len(results) == 0 || !results[0].IsString() {
		return "no string"
	}
	return results[0].Text()
}

// theirs is what a script returns in Redis.
func (o *oracle) theirs(script string) string {
	s, err := o.server.Eval(o.t.Context(), script, nil).Text()
	if err != nil {
		return err.Error()
	}
	return s
}

// compare runs a script in both and reports whether the results are the same.
func (o *oracle) compare(script string) bool {
	ours, theirs := o.ours(script), o.theirs(script)
	if ours == theirs {
		return true
	}
	o.t.Errorf("%.2000s\nours  %.2000q\nRedis %.2000q", script, ours, theirs)
	return false
}

// TestLibraries compares the expressions of testdata/libraries, one in a line;
// a line that begins with a '!' has statements.
func TestLibraries(t *testing.T) {
	o := newOracle(t)
	names, err := filepath.Glob("testdata/libraries/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		f, err := os.Open(name)
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			body, isStatements := strings.CutPrefix(line, "!")
			if !isStatements {
				body = "return " + line
			}
			if line != "" && !o.compare(shown(body)) {
				t.Logf("%s:%d", name, n)
			}
		}
		require.NoError(t, f.Close())
	}
}
