-- A sliding log: a sorted set with a member for each unit, by its time in
-- microseconds.
-- Returns {allowed, limit, remaining}.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]) * 1000)
local used = redis.call('ZCARD', KEYS[1])
if used + cost > limit then
  return {0, limit, limit - used}
end
for i = 1, cost do
  redis.call('ZADD', KEYS[1], now, ARGV[4] .. ':' .. i)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, limit, limit - used - cost}
