-- GCRA on Redis with the least work a script can do: one string per key, one
-- GET and one SET. Times are microseconds.
-- KEYS[1] bucket; ARGV[1] capacity, ARGV[2] emission interval in µs, ARGV[3] cost.
-- Returns {allowed, remaining}.
local interval = tonumber(ARGV[2])
local window = interval * tonumber(ARGV[1])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local new = tat + interval * tonumber(ARGV[3])
if new - now > window then
  return {0, math.floor((window - (tat - now)) / interval)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.max(1, math.ceil((new - now) / 1000)))
return {1, math.floor((window - (new - now)) / interval)}
