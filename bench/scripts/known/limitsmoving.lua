-- Takes units if a list of moments has room for them. ARGV: now, limit, seconds,
-- units.
local now, limit, seconds, units = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if units > limit then return false end
local oldest = redis.call('LINDEX', KEYS[1], limit - units)
if oldest and tonumber(oldest) >= now - seconds then return false end
for _ = 1, units do redis.call('LPUSH', KEYS[1], now) end
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('EXPIRE', KEYS[1], seconds)
return true
