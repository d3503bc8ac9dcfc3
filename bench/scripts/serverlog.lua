-- A sliding log by the server's clock: a sorted set with a member for each
-- admitted call, by its time in microseconds.
-- KEYS[1] log; ARGV[1] limit, ARGV[2] window in ms, ARGV[3] the call's id.
-- Returns {allowed, remaining}.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window * 1000)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then
  return {0, 0}
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - used - 1}
