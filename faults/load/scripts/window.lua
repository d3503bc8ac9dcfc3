-- A fixed window from its first call: a counter that is read, and written
-- again. A negative cost gives back.
-- Returns {allowed, limit, remaining}.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
for _ = 1, tonumber(ARGV[5]) do end -- what others write meanwhile must count
if cost > 0 and used + cost > limit then
  return {0, limit, math.max(0, limit - used)}
end
if cost ~= 0 then
  used = math.max(0, used + cost)
  if redis.call('PTTL', KEYS[1]) >= 0 then
    redis.call('SET', KEYS[1], used, 'KEEPTTL')
  else
    redis.call('SET', KEYS[1], used, 'PX', ARGV[2])
  end
end
return {1, limit, math.max(0, limit - used)}
