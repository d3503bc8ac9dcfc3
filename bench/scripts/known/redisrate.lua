-- GCRA by the server's clock, in seconds. ARGV: burst, rate, period in s, cost.
-- Returns {admitted, remaining, retry after, reset after}, the times as text.
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local interval = period / rate
local tolerance = interval * burst
local clock = redis.call('TIME')
local now = clock[1] - 1483228800 + clock[2] / 1000000
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local after = tat + interval * cost
local room = (now - (after - tolerance)) / interval
if room < 0 then
  return {0, 0, tostring(after - tolerance - now), tostring(tat - now)}
end
local reset = after - now
if reset > 0 then
  redis.call('SET', KEYS[1], after, 'EX', math.ceil(reset))
end
return {cost, room, '-1', tostring(reset)}
