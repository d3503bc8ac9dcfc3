-- A sliding log by the caller's clock: a sorted set with a member for each
-- admitted call.
-- KEYS[1] log; ARGV[1] limit, ARGV[2] window, ARGV[3] now, in the caller's
-- units, ARGV[4] the life of the key in ms. No two calls have the same time.
-- Returns {allowed, remaining}.
local limit, now = tonumber(ARGV[1]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then
  return {0, 0}
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1, limit - used - 1}
