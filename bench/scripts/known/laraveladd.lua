-- Sets a key that is not there. ARGV: value, seconds.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.call('SETEX', KEYS[1], ARGV[2], ARGV[1])
end
return false
