package native_test

import "strconv"

const addIfAbsent = `
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
return redis.call('SETEX', KEYS[1], ARGV[2], ARGV[1])`

const deleteIfOwn = `
if ARGV[1] ~= redis.call('GET', KEYS[1]) then return 0 end
return redis.call('DEL', KEYS[1])`

const countInWindow = `
local time, second, length, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call('EXISTS', KEYS[1]) == 1 and time >= redis.call('HGET', KEYS[1], 'start') and time <= redis.call('HGET', KEYS[1], 'end') then
	local within = redis.call('HINCRBY', KEYS[1], 'count', 1) <= tonumber(most)
	return {within, redis.call('HGET', KEYS[1], 'end'), most - redis.call('HGET', KEYS[1], 'count')}
end
redis.call('HMSET', KEYS[1], 'start', second, 'end', second + length, 'count', 1)
return {redis.call('EXPIRE', KEYS[1], length * 2), second + length, most - 1}`

const lookAtWindow = `
if redis.call('EXISTS', KEYS[1]) == 1 and ARGV[1] >= redis.call('HGET', KEYS[1], 'start') and ARGV[1] <= redis.call('HGET', KEYS[1], 'end') then
	return {redis.call('HGET', KEYS[1], 'end'), ARGV[4] - redis.call('HGET', KEYS[1], 'count')}
end
return {0, ARGV[2] + ARGV[3]}`

const takeFirstFree = `
local values = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
	if not values[i] then
		redis.call('SET', KEYS[i], ARGV[3], 'EX', ARGV[2])
		return ARGV[1] .. i
	end
end`

const countPoints = `
local count = redis.call('INCRBY', KEYS[1], redis.call('SET', KEYS[1], 0, 'NX', 'EX', ARGV[2]) and ARGV[1] or ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left ~= -1 then return {count, left} end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return {count, ARGV[2] * 1000}`

var laravel = []subject{
	{name: "add", sha: "a08c9c69b7c07ae2485190873b90d128a23e502d", own: addIfAbsent, keys: 1, args: func(g *gen) []string { return []string{state(g), g.within(1, 3)} }},
	{name: "lock release", sha: "647c65a442733a1aa440f99908d249d13b4d6c4a", own: deleteIfOwn, keys: 1, other: stateCommand, args: func(g *gen) []string { return []string{state(g)} }},
	{name: "throttle", sha: "29cc07bd431ccbf64637e5dcb60484560fdfa2da", own: countInWindow, keys: 1, other: windowCommand, args: throttled},
	{name: "throttle tooMany", sha: "1c5d436d6863e949247f4fa66fa1e32b7fa18da9", own: lookAtWindow, keys: 1, other: windowAndCount, args: throttled},
	{name: "funnel", sha: "420ca604de4310d8301943a71390ee669720d640", own: takeFirstFree, keys: 3, args: func(g *gen) []string { return []string{"slot", g.within(1, 3), state(g)} }},
}

var flexible = []subject{
	{name: "rate-limiter-flexible", sha: "a1de965f42e177aa339706bd580f049065eca79a", own: countPoints, keys: 1, args: func(g *gen) []string {
		return []string{g.pick("1", "1", "2", "-1", "0", "5"), g.within(1, 3), "5", "3"}
	}},
}

// throttled is a call of the caller's time, with and without a fraction.
func throttled(g *gen) []string {
	time := strconv.FormatFloat(float64(g.now.UnixMilli())/1000+float64(g.IntN(20))/10-1, 'f', -1, 64)
	return []string{time, strconv.FormatInt(g.now.Unix(), 10), g.within(1, 3), g.within(1, 4)}
}

func windowCommand(g *gen, key string) []string {
	second := strconv.FormatInt(g.now.Unix()-int64(g.IntN(3)), 10)
	return [][]string{
		{"DEL", key}, {"HGETALL", key}, {"HSET", key, "count", g.within(-1, 5)}, {"HSET", key, "end", second}, {"HSET", key, "start", second, "other", "x"},
		{"PERSIST", key}, {"HSET", key, "count", odd[g.IntN(len(odd))]}, {"HDEL", key, g.pick("start", "end", "count")}, {"SET", key, "1", "PX", "500"},
	}[g.IntN(9)]
}

// windowAndCount also makes windows, for a script that makes none.
func windowAndCount(g *gen, key string) []string {
	if g.chance(60) {
		second := g.now.Unix() - int64(g.IntN(3))
		return []string{"HSET", key, "start", strconv.FormatInt(second, 10), "end", strconv.FormatInt(second+3, 10), "count", g.within(1, 5)}
	}
	return windowCommand(g, key)
}
