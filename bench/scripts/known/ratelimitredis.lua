-- A counter of a window. ARGV: window in ms. Returns {count, ms to live}.
local window = tonumber(ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left <= 0 then
  redis.call('SET', KEYS[1], 1, 'PX', window)
  return {1, window}
end
return {redis.call('INCR', KEYS[1]), left}
