package lua

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// TestNothingLeaks runs scripts that try to leave state behind, each followed
// by one that looks for it.
func TestNothingLeaks(t *testing.T) {
	env := newEnvironment()
	keys := env.Variable("KEYS")
	th := NewThread(env)
	run := func(text string, with Value) string {
		p, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		th.Reset(Limits{Steps: 1e6, Memory: 1 << 20})
		if !with.IsNil() {
			th.SetGlobal(keys, with)
		}
		results, err := th.Run(p)
		if err != nil {
			return err.Error()
		}
		return th.ToString(results[0])
	}
	for _, c := range []struct{ leave, look, want string }{
		{`return KEYS`, `return tostring(KEYS)`, "nil"},
		{`return pcall(rawset, _G, 'x', 1)`, `return tostring(rawget(_G, 'x'))`, "nil"},
		{`return pcall(function() string.x = 1 end)`, `return tostring(string.x)`, "nil"},
		{`return pcall(function() getmetatable('').__index = {x = 1} end)`, `return tostring(('').x)`, "nil"},
		{`return pcall(function() getmetatable(_G).__index = function() return 1 end end)`, `return tostring(pcall(function() return nothing end))`, "false"},
		{`return cjson.encode_keep_buffer(false) or cjson.decode_max_depth(1)`, `return #cjson.decode('[[[1]]]')`, "1"},
		{`local c = coroutine.wrap(function() coroutine.yield() end) c() return 1`, `return tostring(coroutine.running())`, "nil"},
		{`local a = {1, 2, 3} local b = 'held' error(a)`, `local a, b return tostring(a) .. tostring(b)`, "nilnil"},
		{`return unpack({1, 2, 3})`, `local function f() end return select('#', f())`, "0"},
		{`local function f() return f() + 1 end return f()`, `return 'well'`, "well"},
	} {
		run(c.leave, String("key"))
		if got := run(c.look, Nil); got != c.want {
			t.Errorf("after %s\n%s gives %s, want %s", c.leave, c.look, got, c.want)
		}
	}
}

// TestThreadStaysSmall looks at what a thread keeps after a deep recursion.
func TestThreadStaysSmall(t *testing.T) {
	env := newEnvironment()
	p, err := env.Compile(`local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(16000)`)
	if err != nil {
		t.Fatal(err)
	}
	th := NewThread(env)
	for range 2 {
		th.Reset(Limits{Steps: 1e6, Memory: 64 << 20})
		results, err := th.Run(p)
		if err != nil || results[0].Number() != 16000 {
			t.Fatal(results, err)
		}
	}
	th.Reset(Limits{Steps: 1e6, Memory: 1 << 20})
	frames := 0
	for f := th.bottom.next; f != nil; f = f.next {
		frames++
	}
	if frames > keptFrames || len(th.stack) > keptStack {
		t.Errorf("%d frames and %d registers are left", frames, len(th.stack))
	}
}

// TestGarbageIsFree lets a script take far more than it may hold, a little at a
// time.
func TestGarbageIsFree(t *testing.T) {
	for _, text := range []string{
		`for i = 1, 1e5 do local s = 'garbage number ' .. i end`,
		`for i = 1, 1e5 do local t = {i, {}} end`,
		`for i = 1, 1e5 do local f = function() return i end end`,
		`local s = '' for i = 1, 2000 do s = s .. 'xxxxxxxxxxxxxxxxxxxx' end return #s`,
		`local t = {} for i = 1, 1e5 do t[i % 100] = {i} end`,
	} {
		env := newEnvironment()
		p, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		th := NewThread(env)
		th.Reset(Limits{Steps: 1e8, Memory: 1 << 20})
		if _, err := th.Run(p); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLookEndsARun ends endless scripts from outside, under pcall and in
// coroutines too.
func TestLookEndsARun(t *testing.T) {
	killed := errors.New("killed")
	for _, text := range []string{
		`pcall(function() while true do end end)`,
		`while true do end`,
		`while true do pcall(function() while true do end end) end`,
		`coroutine.wrap(function() while true do end end)()`,
		`local function f() pcall(f) f() end f()`,
		`xpcall(function() while true do end end, function() while true do end end)`,
		`table.sort({1, 2, 3}, function() while true do end end)`,
	} {
		env := newEnvironment()
		p, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		th := NewThread(env)
		looks := 0
		th.Reset(Limits{Steps: 1 << 60, Memory: 1 << 20, Look: func() error {
			if looks++; looks == 5 {
				return killed
			}
			return nil
		}})
		if _, err := th.Run(p); !errors.Is(err, killed) {
			t.Fatalf("%s: %v", text, err)
		}
		if steps := th.Steps(); steps > 10*LookEvery {
			t.Errorf("%s: %d steps until the end", text, steps)
		}
	}
}

// TestThreadsShareScripts runs the same scripts on threads side by side; the
// race detector looks on.
func TestThreadsShareScripts(t *testing.T) {
	env := newEnvironment()
	var protos []*Proto
	for _, s := range speedScripts[4:] {
		p, err := env.Compile(s.text)
		if err != nil {
			t.Fatal(err)
		}
		protos = append(protos, p)
	}
	p, err := env.Compile(`
local t = setmetatable({}, {__index = string})
local c = coroutine.wrap(function(a) while true do a = coroutine.yield(a .. 'x') end end)
for i = 1, 50 do t[i] = c(i) .. cjson.encode({i}) .. ('%d'):format(i) end
return loadstring('return #...')(t)`)
	if err != nil {
		t.Fatal(err)
	}
	protos = append(protos, p)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			th := NewThread(env)
			for range 50 {
				for _, p := range protos {
					th.Reset(Limits{Steps: 1e6, Memory: 1 << 20})
					if _, err := th.Run(p); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	group.Wait()
}

// TestThreadsShareAnyScript runs scripts of every kind on threads side by side,
// most of them wrong in some way; the race detector looks on.
func TestThreadsShareAnyScript(t *testing.T) {
	env := newEnvironment()
	var protos []*Proto
	texts := strings.Split(chunks, "\n")
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		texts = append(texts, randomProgram(r))
	}
	for _, text := range texts {
		if p, err := env.Compile(text); err == nil {
			protos = append(protos, p)
		}
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			th := NewThread(env)
			for n := range protos {
				th.Reset(Limits{Steps: 1e5, Memory: 4 << 20})
				_, _ = th.Run(protos[(n+i*i)%len(protos)])
			}
		})
	}
	group.Wait()
}

// TestFirstScriptsCompileSideBySide has several threads compile what is the
// first script of an environment, which makes its tables readonly; the race
// detector looks on.
func TestFirstScriptsCompileSideBySide(t *testing.T) {
	for range 20 {
		env := newEnvironment()
		gate := make(chan struct{})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				<-gate
				p, err := env.Compile(`return tostring(_G._G == _G) .. tostring(pcall(rawset, _G, 'x', 1))`)
				if err != nil {
					t.Error(err)
					return
				}
				th := NewThread(env)
				th.Reset(Limits{Steps: 1e6, Memory: 1 << 20})
				results, err := th.Run(p)
				if err != nil || th.ToString(results[0]) != "truefalse" {
					t.Error(results, err)
				}
			})
		}
		close(gate)
		group.Wait()
	}
}

// TestLooksAndMore checks how often a run asks whether to go on. It also checks
// that the run asks for more memory when it needs it, a part more each time.
func TestLooksAndMore(t *testing.T) {
	env := newEnvironment()
	p, err := env.Compile(`local t = {} for i = 1, 20000 do t[i] = 'a long string beside ' .. i end return #t`)
	if err != nil {
		t.Fatal(err)
	}
	th := NewThread(env)
	looks, asked, granted := 0, 0, int64(0)
	refuse := errors.New("no more")
	f := func(limits Limits, want error) {
		t.Helper()
		looks, asked, granted = 0, 0, limits.Memory
		limits.Steps, limits.Look = 1e6, func() error { looks++; return nil }
		th.Reset(limits)
		if _, err := th.Run(p); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	more := func(memory int64) error {
		if asked++; memory <= granted {
			t.Errorf("asked for %d bytes after %d", memory, granted)
		}
		granted = memory
		return nil
	}
	f(Limits{Memory: 64 << 20, Every: 256, More: more}, nil)
	if least := int(th.Steps() / 256 / 2); looks < least || asked != 0 {
		t.Errorf("%d looks, at least %d, and asked %d times for more", looks, least, asked)
	}
	f(Limits{Memory: 1 << 20}, ErrMemory)
	f(Limits{Memory: 1 << 20, MostMemory: 64 << 20}, ErrMemory)
	f(Limits{Memory: 1 << 20, MostMemory: 64 << 20, More: more}, nil)
	if asked == 0 || granted > 4<<20 {
		t.Errorf("asked %d times, and got %d bytes", asked, granted)
	}
	f(Limits{Memory: 64 << 10, MostMemory: 256 << 10, More: more}, ErrMemory)
	f(Limits{Memory: 1 << 20, MostMemory: 64 << 20, More: func(int64) error { return refuse }}, refuse)
}

// TestSuspendedRecursionIsCounted: what deep calls take of Go's stack counts for
// the memory, in coroutines too.
func TestSuspendedRecursionIsCounted(t *testing.T) {
	env := newEnvironment()
	p, err := env.Compile(`
		local function deep(n) if n == 0 then coroutine.yield() else deep(n - 1) end return 1 end
		local all = {}
		for i = 1, 100 do all[i] = coroutine.wrap(function() deep(5000) end) all[i]() end
		return #all`)
	if err != nil {
		t.Fatal(err)
	}
	th := NewThread(env)
	th.Reset(Limits{Steps: 1e8, Memory: 64 << 20})
	if _, err := th.Run(p); !errors.Is(err, ErrMemory) {
		t.Fatal(err)
	}
}
