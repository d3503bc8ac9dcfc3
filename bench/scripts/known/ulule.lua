-- A counter of a window. ARGV: units, window in ms. Returns {count, ms to live}.
local units, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
if count == units then
  if window > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return {count, window}
end
return {count, redis.call('PTTL', KEYS[1])}
