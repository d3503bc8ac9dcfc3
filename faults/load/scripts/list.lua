-- A sliding log: a list of the times of the last units, the newest first. It
-- does not tell what remains.
-- Returns {allowed, limit, 0}.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
if cost > 0 then
  local oldest = redis.call('LINDEX', KEYS[1], limit - cost) -- of those that leave no room
  if oldest and now - tonumber(oldest) < tonumber(ARGV[2]) * 1000 then
    return {0, limit, 0}
  end
  for _ = 1, cost do
    redis.call('LPUSH', KEYS[1], now)
  end
  redis.call('LTRIM', KEYS[1], 0, limit - 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, limit, 0}
