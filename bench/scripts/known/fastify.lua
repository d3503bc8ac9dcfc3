-- A counter of a window, that may be lengthened by calls beyond the limit.
-- ARGV: window in ms, limit, whether to lengthen it, whether exponentially.
-- Returns {count, ms to live}.
local window, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = redis.call('INCR', KEYS[1])
if count == 1 or (ARGV[3] == 'true' and count > most) then
  redis.call('PEXPIRE', KEYS[1], window)
  return {count, window}
end
if ARGV[4] == 'true' and count > most then
  local longer = math.min(window * 2 ^ (count - most - 1), 2 ^ 53 - 1)
  redis.call('PEXPIRE', KEYS[1], longer)
  return {count, longer}
end
return {count, redis.call('PTTL', KEYS[1])}
