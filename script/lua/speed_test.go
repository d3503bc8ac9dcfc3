package lua

import (
	"strings"
	"testing"

	vm "github.com/yuin/gopher-lua"
	vmparse "github.com/yuin/gopher-lua/parse"
)

// speedScripts are rate limiters as people write them; redis.call answers at
// once with fixed values.
var speedScripts = []struct{ name, text string }{
	{"counter", `
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return n`},
	{"gcra", `
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local interval = period / rate
local increment = interval * cost
local offset = interval * burst
local start = 1483228800
local now = redis.call('TIME')
now = (now[1] - start) + (now[2] / 1000000)
local tat = redis.call('GET', KEYS[1])
if not tat then tat = now else tat = tonumber(tat) end
tat = math.max(tat, now)
local new_tat = tat + increment
local allow_at = new_tat - offset
local diff = now - allow_at
local remaining = diff / interval
if remaining < 0 then
  return {0, 0, tostring(diff * -1), tostring(tat - now)}
end
local reset_after = new_tat - now
if reset_after > 0 then
  redis.call('SET', KEYS[1], new_tat, 'EX', math.ceil(reset_after))
end
return {cost, remaining, tostring(-1), tostring(reset_after)}`},
	{"token bucket", `
local key = KEYS[1]
local rate, capacity, now, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local state = redis.call('HMGET', key, 'tokens', 'last')
local tokens = tonumber(state[1])
local last = tonumber(state[2])
if tokens == nil then tokens = capacity last = now end
local delta = math.max(0, now - last)
tokens = math.min(capacity, tokens + delta * rate)
local allowed = tokens >= requested
if allowed then tokens = tokens - requested end
redis.call('HSET', key, 'tokens', tokens, 'last', now)
redis.call('EXPIRE', key, math.ceil(capacity / rate * 2))
return {allowed and 1 or 0, math.floor(tokens)}`},
	{"sorted-set log", `
local now, window, limit = tonumber(ARGV[3]), tonumber(ARGV[2]), tonumber(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local count = redis.call('ZCARD', KEYS[1])
if count < limit then
  redis.call('ZADD', KEYS[1], now, now .. '-' .. count)
  redis.call('PEXPIRE', KEYS[1], window)
  return {1, limit - count - 1}
end
return {0, 0}`},
	{"arithmetic loop", `
local s = 0
for i = 1, 1000 do s = s + i % 7 * 2 end
return s`},
	{"tables and calls", `
local function add(t, k, n) t[k] = (t[k] or 0) + n return t[k] end
local t = {}
for i = 1, 200 do add(t, 'k' .. i % 10, i) end
local s = 0
for k, v in pairs(t) do s = s + v end
return s`},
}

func BenchmarkEvaluator(b *testing.B) {
	env := NewEnvironment()
	env.Set("redis", NewLibrary(Func("call", stubCall)).Value())
	keys, argv := env.Variable("KEYS"), env.Variable("ARGV")
	th := NewThread(env)
	for _, s := range speedScripts {
		p, err := env.Compile(s.text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				th.Reset(Limits{Steps: 1e6, Memory: 32 << 20})
				k := th.NewTable(1, 0)
				k.SetInt(th, 1, String("rate:key"))
				a := th.NewTable(4, 0)
				for i, v := range []string{"10", "60", "1700000000", "1"} {
					a.SetInt(th, i+1, String(v))
				}
				th.SetGlobal(keys, k.Value())
				th.SetGlobal(argv, a.Value())
				if _, err := th.Run(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// stubCall is redis.call.
func stubCall(t *Thread, args []Value) Value {
	switch args[0].Text() {
	case "TIME":
		r := t.NewTable(2, 0)
		r.SetInt(t, 1, String("1700000000"))
		r.SetInt(t, 2, String("123456"))
		return r.Value()
	case "GET":
		return String("216771200.5")
	case "HMGET":
		r := t.NewTable(2, 0)
		r.SetInt(t, 1, String("5.5"))
		r.SetInt(t, 2, String("1699999990"))
		return r.Value()
	}
	return Int(5)
}

func BenchmarkVM(b *testing.B) {
	l := vm.NewState()
	defer l.Close()
	redis := l.NewTable()
	redis.RawSetString("call", l.NewFunction(vmStubCall))
	l.SetGlobal("redis", redis)
	for _, s := range speedScripts {
		chunk, err := vmparse.Parse(strings.NewReader(s.text), "user_script")
		if err != nil {
			b.Fatal(err)
		}
		p, err := vm.Compile(chunk, "user_script")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k := l.NewTable()
				k.RawSetInt(1, vm.LString("rate:key"))
				a := l.NewTable()
				for i, v := range []string{"10", "60", "1700000000", "1"} {
					a.RawSetInt(i+1, vm.LString(v))
				}
				l.SetGlobal("KEYS", k)
				l.SetGlobal("ARGV", a)
				l.Push(l.NewFunctionFromProto(p))
				if err := l.PCall(0, 1, nil); err != nil {
					b.Fatal(err)
				}
				l.Pop(1)
			}
		})
	}
}

func vmStubCall(l *vm.LState) int {
	switch string(l.Get(1).(vm.LString)) {
	case "TIME":
		r := l.NewTable()
		r.RawSetInt(1, vm.LString("1700000000"))
		r.RawSetInt(2, vm.LString("123456"))
		l.Push(r)
	case "GET":
		l.Push(vm.LString("216771200.5"))
	case "HMGET":
		r := l.NewTable()
		r.RawSetInt(1, vm.LString("5.5"))
		r.RawSetInt(2, vm.LString("1699999990"))
		l.Push(r)
	default:
		l.Push(vm.LNumber(5))
	}
	return 1
}
