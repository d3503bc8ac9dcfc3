-- The token bucket most applications run on Redis: one hash per key, refilled
-- lazily by the server's clock.
-- KEYS[1] bucket; ARGV[1] capacity, ARGV[2] tokens per second, ARGV[3] cost.
-- Returns {allowed, remaining}. A denied call writes nothing, because the
-- refill can be computed from the older timestamp just as well. A key lives until
-- its bucket is full again.
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = tonumber(bucket[1])
local ts = tonumber(bucket[2])
if tokens == nil then
  tokens = capacity
else
  tokens = math.min(capacity, tokens + math.max(0, now - ts) * rate)
end

if tokens < cost then
  return {0, math.floor(tokens)}
end
tokens = tokens - cost
redis.call('HSET', KEYS[1], 'tokens', tokens, 'ts', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / rate * 1000))
return {1, math.floor(tokens)}
