package sequence

import "strconv"

// limiters are scripts as applications write them, in words of our own. They
// take the time from their caller, so that two servers say the same.
var limiters = []struct {
	body string
	args func(g *Generator, now int) []string
	kind string // of their key
}{
	{ // fixed window
		body: `local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n == tonumber(ARGV[1]) then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
if n > tonumber(ARGV[3]) then return {0, n} end
return {1, n}`,
		args: func(g *Generator, now int) []string {
			return []string{strconv.Itoa(1 + g.rng.IntN(3)), "1000", "10"}
		},
		kind: "s",
	},
	{ // token bucket in a hash
		body: `local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local now, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(state[1]) or burst
local at = tonumber(state[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate / 1000)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 100000)
return {allowed and 1 or 0, tostring(tokens), math.floor(tokens)}`,
		args: func(g *Generator, now int) []string {
			return []string{g.pick("3", "0.7", "10"), "20", strconv.Itoa(now), g.pick("1", "2", "0.5")}
		},
		kind: "h",
	},
	{ // sorted set of times
		body: `local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  return {0, count, first[2] + window - now}
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window + 100000)
return {1, count + 1, -1}`,
		args: func(g *Generator, now int) []string {
			return []string{strconv.Itoa(now), "1000", "5", strconv.Itoa(now) + "-" + strconv.Itoa(g.rng.IntN(1000))}
		},
		kind: "z",
	},
	{ // generic cell rate
		body: `local period, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
local base = math.max(tat, now)
local new = base + period * cost
if new - period * burst > now then
  return {0, tostring(new - period * burst - now)}
end
redis.call('SET', KEYS[1], new, 'EX', math.ceil((new - now) / 1000) + 100)
return {1, tostring(new - now)}`,
		args: func(g *Generator, now int) []string {
			return []string{g.pick("100", "33.3", "0.1"), "10", g.pick(strconv.Itoa(now), strconv.Itoa(now)+".125"), g.pick("1", "3")}
		},
		kind: "s",
	},
	{ // list of times
		body: `local at = redis.call('LINDEX', KEYS[1], ARGV[2] - 1)
if at and tonumber(at) > ARGV[1] - ARGV[3] then return false end
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
redis.call('EXPIRE', KEYS[1], 1000)
return true`,
		args: func(g *Generator, now int) []string { return []string{strconv.Itoa(now), "4", "1000"} },
		kind: "l",
	},
}

// limiter returns one of them, and arguments of a moment shortly after that of
// the call before.
func (g *Generator) limiter() (body string, args []string) {
	l := limiters[g.rng.IntN(len(limiters))]
	g.clock += g.rng.IntN(400)
	return l.body, append([]string{"1", g.keyOf(l.kind)}, l.args(g, g.clock)...)
}
