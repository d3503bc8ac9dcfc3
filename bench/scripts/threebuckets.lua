-- Three token buckets checked as one: all admit the call and are charged, or none is.
-- KEYS the buckets; ARGV[1] cost; ARGV[2i] capacity and ARGV[2i+1] tokens per second of KEYS[i].
-- Returns {allowed, remaining of each}. Each bucket is that of tokenbucket.lua.
local cost = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local allowed = 1
local tokens = {}
for i, key in ipairs(KEYS) do
  local capacity = tonumber(ARGV[2 * i])
  local rate = tonumber(ARGV[2 * i + 1])
  local bucket = redis.call('HMGET', key, 'tokens', 'ts')
  local left = tonumber(bucket[1])
  local ts = tonumber(bucket[2])
  if left == nil then
    left = capacity
  else
    left = math.min(capacity, left + math.max(0, now - ts) * rate)
  end
  if left < cost then
    allowed = 0
  end
  tokens[i] = left
end

local reply = {allowed}
for i, key in ipairs(KEYS) do
  if allowed == 1 then
    local capacity = tonumber(ARGV[2 * i])
    local rate = tonumber(ARGV[2 * i + 1])
    tokens[i] = tokens[i] - cost
    redis.call('HSET', key, 'tokens', tokens[i], 'ts', now)
    redis.call('PEXPIRE', key, math.ceil((capacity - tokens[i]) / rate * 1000))
  end
  reply[i + 1] = math.floor(tokens[i])
end
return reply
