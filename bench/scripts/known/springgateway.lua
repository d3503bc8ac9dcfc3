-- A token bucket in two strings. ARGV: tokens a second, capacity, the time in s
-- or nothing for the server's, units. Returns {allowed, tokens}.
local rate, capacity, units = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local now = tonumber(ARGV[3])
if not now then
  now = tonumber(redis.call('TIME')[1])
end
local life = math.floor(capacity / rate * 2)
local tokens = tonumber(redis.call('GET', KEYS[1])) or capacity
local last = tonumber(redis.call('GET', KEYS[2])) or 0
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = 0
if tokens >= units then
  tokens, allowed = tokens - units, 1
end
if life > 0 then
  redis.call('SETEX', KEYS[1], life, tokens)
  redis.call('SETEX', KEYS[2], life, now)
end
return {allowed, tokens}
