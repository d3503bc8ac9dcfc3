package native_test

import (
	"slices"
	"strconv"
	"time"
)

// subjects are the known scripts and how they are called.
var subjects = slices.Concat(rateLimitRedis, fastify, nestLab, ulule, bucket4j, springGateway, limits, laravel, flexible,
	throttledStore, fastAPI, django, asyncRateLimiter, pyrate)

// milliseconds is the length of a window.
func milliseconds(g *gen) string { return g.pick("1", "100", "1000", "1000", "2500", "60000") }

var rateLimitRedis = []subject{
	{name: "rate-limit-redis increment", sha: "3f424a504987d231baa2e19159bb5def8ad32f87", own: countAndRenew, keys: 1, args: resetAndWindow},
	{name: "rate-limit-redis increment", sha: "b829ec02dca78a148dfc75dd3c86f488ed007c68", own: countAndRenew, keys: 1, args: resetAndWindow},
	{name: "rate-limit-redis increment", sha: "81dbecea94d2d10514719b20ed51faf711529d9d", own: countOrBegin, keys: 1, args: resetAndWindow},
	{name: "rate-limit-redis increment", sha: "895b92e1712734e1b464999be23953485475357b", own: countOrBegin6, keys: 1, args: func(g *gen) []string { return []string{milliseconds(g)} }},
	{name: "rate-limit-redis get", sha: "6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", own: textAndLeft, keys: 1, args: noArgs},
}

func resetAndWindow(g *gen) []string { return []string{g.pick("0", "0", "1"), milliseconds(g)} }

func noArgs(*gen) []string { return nil }

var fastify = []subject{
	{name: "@fastify/rate-limit rateLimit", sha: "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", own: countAndBan, keys: 1, args: func(g *gen) []string {
		return []string{milliseconds(g), g.within(1, 4), g.pick("-1", "0", "2"), g.pick("true", "false")}
	}},
	{name: "@fastify/rate-limit rateLimit", sha: "f80d0c65a05e27559602a2b43fbe989df31fc5f6", own: countAndExtend, keys: 1, args: windowAndMax},
	{name: "@fastify/rate-limit rateLimit", sha: "b72d57bf75a045b8d6f72ca5b553e356583723f0", own: countAndDouble, keys: 1, args: windowAndMax},
	{name: "@fastify/rate-limit rateLimit", sha: "b8a19d47785922bb04e7a9fdb49e90d89be1b8af", own: countFromOneAndDouble, keys: 1, args: windowAndMax},
	{name: "@fastify/rate-limit rateLimitRead", sha: "4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", own: countAndLeftOrNone, keys: 1, args: noArgs},
}

func windowAndMax(g *gen) []string {
	return []string{milliseconds(g), g.within(1, 4), g.pick("true", "false", "false"), g.pick("true", "false", "false")}
}

var nestLab = []subject{
	{name: "@nest-lab/throttler-storage-redis increment", sha: "f1e0da9c495676ab6904eb80db1f2811d5347f58", own: countAndBlock, keys: 2, args: func(g *gen) []string {
		return []string{"default", milliseconds(g), g.within(1, 4), milliseconds(g)}
	}},
}

var ulule = []subject{
	{name: "ulule/limiter increment", sha: "f74233f556d3f99c50b61169cf8aa8d5deb63fb2", own: addAndExpire, keys: 1, args: func(g *gen) []string {
		return []string{g.pick("1", "1", "1", "5", "0"), milliseconds(g)}
	}},
	{name: "ulule/limiter peek", sha: "566f5c6a17e5fddb9a10bf389f754edd0d899c61", own: countAndLeft, keys: 1, args: noArgs},
}

// states are those of a bucket; they mean nothing to the server.
func state(g *gen) string {
	return g.pick("\x00\x01\xff\r\n", "7", "state of a bucket", "", "-0", "12345678901234567890", "0012")
}

var bucket4j = []subject{
	{name: "Bucket4j set if absent", sha: "c0569386b0382069581dfaa1a8d241140bc0eeb4", own: createFor, keys: 1, other: stateCommand, args: func(g *gen) []string {
		return []string{state(g), milliseconds(g)}
	}},
	{name: "Bucket4j set if absent", sha: "1fed031c105d7c0315b3fc2e4a75e697247264f5", own: create, keys: 1, other: stateCommand, args: func(g *gen) []string {
		return []string{state(g)}
	}},
	{name: "Bucket4j compare and set", sha: "535b2fd00a12a23393fe15cf99599ecc51cd3007", own: swapFor, keys: 1, other: stateCommand, args: func(g *gen) []string {
		return []string{state(g), state(g), milliseconds(g)}
	}},
	{name: "Bucket4j compare and set", sha: "9450de540565d89de15092a716555821601f128b", own: swap, keys: 1, other: stateCommand, args: func(g *gen) []string {
		return []string{state(g), state(g)}
	}},
}

func stateCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	return [][]string{{"DEL", key}, {"GET", key}, {"SET", key, state(g)}, {"SET", key, state(g), "PX", g.within(1, 3000)}, {"PTTL", key}}[g.IntN(5)]
}

var springGateway = []subject{
	{name: "Spring Cloud Gateway request_rate_limiter", sha: "eec77786d43c65f7fd568900b5d2b63b692318dc", own: take("tonumber(ARGV[3])", "true"), keys: 2, args: tokenBucket(clientTime), other: bucketCommand},
	{name: "Spring Cloud Gateway request_rate_limiter", sha: "9d491aea731237273f4274f9ed9660b432b23791", own: take("tonumber(ARGV[3])", "life > 0"), keys: 2, args: tokenBucket(clientTime), other: bucketCommand},
	{name: "Spring Cloud Gateway request_rate_limiter", sha: "76a566c51f92d8f643d16e0ef0101663d5380dba", own: take("redis.call('TIME')[1]", "life > 0"), keys: 2, args: tokenBucket(serverTime), other: bucketCommand},
	{name: "Spring Cloud Gateway request_rate_limiter", sha: "775635cca91092477cbcee85fd800accb6adc4b2", own: take("tonumber(ARGV[3]) or redis.call('TIME')[1]", "life > 0"), keys: 2, args: tokenBucket(eitherTime), other: bucketCommand},
	{name: "Spring Cloud Gateway request_rate_limiter", sha: "0ad5736ed1c04aae6ec194376c784b89b8c08a7a", own: take("tonumber(ARGV[3]) or redis.call('TIME')[1]", "life > 0"), keys: 2, args: tokenBucket(eitherTime), other: bucketCommand},
}

func clientTime(g *gen) string { return strconv.FormatInt(g.now.Unix(), 10) }
func serverTime(*gen) string   { return "" }
func eitherTime(g *gen) string {
	if g.chance(30) {
		return clientTime(g)
	}
	return serverTime(g)
}

// tokenBucket are rate, capacity, time and number of tokens.
func tokenBucket(now func(g *gen) string) func(g *gen) []string {
	return func(g *gen) []string {
		return []string{g.pick("1", "2", "3", "10", "0.5", "1000"), g.pick("1", "2", "5", "20", "7", "1000"), now(g), g.pick("1", "1", "1", "2", "5", "0")}
	}
}

func bucketCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	n := g.pick("0", "1", "3.5", "0.333333333333333", "17", "-2", "1e3")
	return [][]string{{"DEL", key}, {"GET", key}, {"SET", key, n}, {"SETEX", key, g.within(1, 9), n}, {"SETEX", key, "10", clientTime(g)}, {"PERSIST", key}}[g.IntN(6)]
}

var limits = []subject{
	{name: "limits incr_expire", sha: "628bd136a573a06b346879695681af12ccef300f", own: addAndExpireSeconds, keys: 1, args: func(g *gen) []string {
		return []string{g.within(1, 3), g.pick("1", "1", "1", "2", "7", "0", "-1")}
	}},
	{name: "limits acquire_moving_window", sha: "741eab638ba93ed71020bb821c45c022d0fa02c4", own: noteMoments, keys: 1, args: movingWindow, other: logCommand},
	{name: "limits acquire_moving_window", sha: "19c9778cd6391e2ee9f90aa518bf56256d15b4ae", own: noteMoments, keys: 1, args: movingWindow, other: logCommand},
	{name: "limits moving_window", sha: "ad795214f59fe26d6fdec07973836dd16586f5ec", own: searchMoments, keys: 1, args: movingRead, other: logCommand, avoid: []string{"inf", "1e400"}},
	{name: "limits moving_window", sha: "f2ef2962263bbe72f66f5bbd0da234e74d880068", own: walkMoments, keys: 1, args: movingRead, other: logCommand},
	{name: "limits acquire_sliding_window", sha: "e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", own: slideAndTake, keys: 2, args: func(g *gen) []string {
		return []string{g.within(1, 8), g.within(1, 2), g.pick("1", "1", "1", "2", "3", "0", "9")}
	}},
	{name: "limits sliding_window", sha: "e7a0a27d4101baabb124af209bb0245197a359a1", own: slideAndLook, keys: 2, args: func(g *gen) []string { return []string{g.within(1, 2)} }, other: counterCommand},
}

// moment is a time as a Python client writes it.
func moment(g *gen) string {
	at := g.now.Add(-time.Duration(g.IntN(10)*g.IntN(400)) * time.Millisecond)
	return strconv.FormatFloat(float64(at.UnixMicro()+int64(g.IntN(1000)))/1e6, 'f', -1, 64)
}

// movingWindow are time, limit, length in seconds and amount.
func movingWindow(g *gen) []string {
	return []string{moment(g), g.within(1, 9), g.within(1, 3), g.pick("1", "1", "1", "2", "3", "10", "0")}
}

// movingRead are the beginning of the window and the limit.
func movingRead(g *gen) []string { return []string{moment(g), g.within(1, 9)} }

func logCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	return [][]string{{"DEL", key}, {"LPUSH", key, moment(g)}, {"LPUSH", key, moment(g), moment(g), moment(g)}, {"RPUSH", key, moment(g)}, {"LTRIM", key, "0", "2"}, {"EXPIRE", key, "2"}, {"LLEN", key}}[g.IntN(7)]
}
