-- A counter of a window, and a mark that blocks who exceeds its limit.
-- ARGV: name, window in ms, limit, block in ms.
-- Returns {count, ms to live, blocked, ms of the block}.
local window, most, block = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local count = redis.call('INCR', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if left <= 0 then
  redis.call('PEXPIRE', KEYS[1], window)
  left = window
end
local blocked = redis.call('GET', KEYS[2])
if not blocked and count > most then
  redis.call('SET', KEYS[2], 1, 'PX', block)
  blocked = '1'
end
if not blocked then
  return {count, left, 0, 0}
end
return {count, left, 1, redis.call('PTTL', KEYS[2])}
