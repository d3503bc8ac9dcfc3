package native_test

import (
	"strconv"
	"strings"
)

const swapOrComplain = `
local state = redis.call('GET', KEYS[1])
if not state then return redis.error_reply('key does not exist') end
if state == ARGV[1] then
	redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
	return 1
end
return 0`

var throttledStore = []subject{
	{name: "throttled", sha: "ebd682e30de074a6919bde872b507734c7c3ebe5", own: swapOrComplain, keys: 1, args: func(g *gen) []string {
		return []string{g.pick("7", "8"), g.pick("7", "8"), g.within(1, 3)}
	}, other: func(g *gen, key string) []string {
		if g.chance(10) {
			return stateCommand(g, key)
		}
		return []string{"SET", key, g.pick("7", "8"), "PX", g.within(500, 5000)}
	}},
}

const countUpTo = `
local count = tonumber(redis.call('GET', KEYS[1]) or 0)
if count <= 0 then
	redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
elseif count >= tonumber(ARGV[1]) then
	return redis.call('PTTL', KEYS[1])
else
	redis.call('INCR', KEYS[1])
end
return 0`

var fastAPI = []subject{
	{name: "fastapi-limiter", sha: "a3f9e982197e9e887f6b5dcb7ec273863bb83aad", own: countUpTo, keys: 1, args: func(g *gen) []string {
		return []string{g.within(0, 5), milliseconds(g)}
	}},
}

var django = []subject{
	{name: "django-redis incr", sha: "f4a7da3e5d8ea3b46642af08427151cae0190400", keys: 1, args: delta,
		own: `return redis.call('EXISTS', KEYS[1]) ~= 0 and redis.call('INCRBY', KEYS[1], ARGV[1])`},
	{name: "django-redis incr", sha: "4d15273b16b10c15e1d9202cbe93c959ab7d250b", keys: 1, args: delta,
		own: `local sum = redis.call('INCRBY', KEYS[1], ARGV[1]) return sum`},
}

func delta(g *gen) []string { return []string{g.pick("1", "1", "5", "-1", "0")} }

const noteMicroseconds = `
local now, length, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - length)
local left = most - redis.call('ZCARD', KEYS[1])
local first = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0)[1] or now)
if left > 0 and PEEK then
	redis.call('ZADD', KEYS[1], now, now)
	redis.call('PEXPIRE', KEYS[1], length)
end
return {math.max(left, 0), math.floor((first + length) / 1000), most}`

var asyncRateLimiter = []subject{
	{name: "async-ratelimiter", sha: "51d8e63a380bf7a715e9cc96b2fa6ad9e2e8788b", own: noteUnless("true"), keys: 1, other: momentCommand, args: func(g *gen) []string {
		return []string{microseconds(g), g.pick("1000", "400000", "2000000"), g.within(1, 6)}
	}},
	{name: "async-ratelimiter", sha: "ad00ff6f099013f2aea94ed48c220cbf616c6a07", own: noteUnless("ARGV[4] ~= '1'"), keys: 1, other: momentCommand, args: func(g *gen) []string {
		return []string{microseconds(g), g.pick("1000", "400000", "2000000"), g.within(1, 6), g.pick("0", "0", "0", "1")}
	}},
}

// noteUnless notes a moment on a condition.
func noteUnless(notes string) string { return strings.Replace(noteMicroseconds, "PEEK", notes, 1) }

// microseconds is the time now and then, of clients whose clocks differ.
func microseconds(g *gen) string {
	return strconv.FormatInt(g.now.UnixMicro()+int64(g.IntN(3)*g.IntN(5000)), 10)
}

func momentCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	at := microseconds(g)
	return [][]string{{"DEL", key}, {"ZADD", key, at, at}, {"ZADD", key, at, "m"}, {"ZADD", key, "1", at}, {"ZADD", key, "-5", "3"}, {"ZCARD", key}, {"PERSIST", key}}[g.IntN(7)]
}

const noteItems = `
local function room(from)
	if ARGV[from] == nil or (from - 5) / 2 >= tonumber(ARGV[4]) then return -1 end
	local seen = redis.call('ZCOUNT', KEYS[1], ARGV[1] - ARGV[from], ARGV[1])
	if ARGV[from + 1] - seen < tonumber(ARGV[2]) then return (from - 5) / 2 end
	return room(from + 2)
end
local full = room(5)
for unit = 1, full < 0 and ARGV[2] or 0 do
	redis.call('ZADD', KEYS[1], ARGV[1], ARGV[3] .. unit)
end
return full`

var pyrate = []subject{
	{name: "pyrate-limiter", sha: "be8167afc95f25615961866ad639b736828f12b5", own: noteItems, keys: 1, other: itemCommand, args: items},
	{name: "pyrate-limiter", sha: "12a3befaf96dc1cd0dc2c2af0160972b6981b685", own: noteItems, keys: 1, other: itemCommand, args: items},
}

// items are the time, a number of units, a name, and limits.
func items(g *gen) []string {
	args := []string{strconv.FormatInt(g.now.UnixMilli()-int64(g.IntN(3)), 10), g.pick("1", "1", "1", "2", "4", "0"), "item-" + g.within(1, 99) + "-", "1", "1000", g.within(1, 5)}
	if g.chance(50) {
		args[3] = "2"
		args = append(args, "60000", g.within(3, 12))
	}
	return args
}

func itemCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	at := strconv.FormatInt(g.now.UnixMilli(), 10)
	return [][]string{
		{"DEL", key}, {"ZADD", key, at, "x"}, {"ZREMRANGEBYSCORE", key, "-inf", strconv.FormatInt(g.now.UnixMilli()-500, 10)}, {"ZCARD", key}, {"ZRANGE", key, "0", "0", "WITHSCORES"},
	}[g.IntN(5)]
}
