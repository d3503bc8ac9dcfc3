-- A counter that is made with its time to live. ARGV: points, seconds.
-- Returns {count, ms to live}.
redis.call('SET', KEYS[1], 0, 'EX', ARGV[2], 'NX')
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left == -1 then
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  left = 1000 * ARGV[2]
end
return {count, left}
