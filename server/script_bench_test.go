package server

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/script"
)

// interpreted are scripts as limiters have them, and their keys and arguments.
var interpreted = map[string]struct {
	body string
	args []string
}{
	"token bucket": {`
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
redis.call('EXPIRE', key, math.ceil(capacity / rate) * 2)
return { allowed and 1 or 0, math.floor(tokens) }`, []string{"1", "bucket", "10", "100", "1700000000", "1"}},
	"GCRA": {`
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local interval = 60 / rate
local now = redis.call('TIME')
now = now[1] - 1483228800 + now[2] / 1000000
local tat = redis.call('GET', KEYS[1])
if not tat then tat = now else tat = tonumber(tat) end
tat = math.max(tat, now)
local new_tat = tat + interval * cost
local allow_at = new_tat - interval * burst
local diff = now - allow_at
if diff < 0 then return { 0, 0, tostring(-diff), tostring(tat - now) } end
redis.call('SET', KEYS[1], new_tat, 'EX', math.ceil(new_tat - now))
return { cost, math.floor(diff / interval), '-1', tostring(new_tat - now) }`, []string{"1", "gcra", "1000000", "100", "1"}},
	"log": {`
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local n = redis.call('ZCARD', KEYS[1])
if n < limit then
  redis.call('ZADD', KEYS[1], now, now)
  redis.call('PEXPIRE', KEYS[1], window)
end
return n < limit and 1 or 0`, []string{"1", "log", "1700000000", "60000", "100"}},
}

// BenchmarkInterpreted is a script in a pipeline of 16, from the bytes to the
// replies.
func BenchmarkInterpreted(b *testing.B) {
	for name, sc := range interpreted {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			s := newTestServer(b, Config{Parts: One(engine.New(engine.Config{}), nil), Runtime: Runtime{SlowlogThreshold: time.Second}}, func() uint64 { return 1 })
			m := newMachine(s)
			m.feed(encode("SCRIPT", "LOAD", sc.body))
			m.take()
			const pipeline = 16
			batch := strings.Repeat(encode(append([]string{"EVALSHA", script.Digest([]byte(sc.body))}, sc.args...)...), pipeline)
			m.feed(batch)
			if reply := m.take(); strings.Contains(reply, "-") && !strings.Contains(reply, "-1") {
				b.Fatal(reply)
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += pipeline {
				m.feed(batch)
				m.take()
			}
		})
	}
}
