-- Adds to a counter and to a sorted set, both or neither, and reads both. A
-- cost of 0 only reads.
-- Returns {the counter, the size of the sorted set}: always the same number.
if tonumber(ARGV[3]) > 0 then
  redis.call('INCRBY', KEYS[1], ARGV[3])
  for _ = 1, tonumber(ARGV[5]) do end -- half of it must not show meanwhile
  redis.call('ZADD', KEYS[2], 1, ARGV[4])
end
return {tonumber(redis.call('GET', KEYS[1]) or '0'), redis.call('ZCARD', KEYS[2])}
