-- A token bucket in a hash of two fields.
-- Returns {allowed, limit, remaining}.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local rate = limit / tonumber(ARGV[2]) -- tokens per millisecond
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = limit
if state[1] then
  tokens = math.min(limit, tonumber(state[1]) + math.max(0, now - tonumber(state[2])) * rate)
end
if tokens < cost then
  return {0, limit, math.floor(tokens)}
end
if cost > 0 then
  redis.call('HSET', KEYS[1], 'tokens', tokens - cost, 'at', now)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, limit, math.floor(tokens - cost)}
