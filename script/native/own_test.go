package native_test

import "strings"

// Scripts in our words that do what those of libraries do.

const countAndRenew = `
local count, left = redis.call('INCR', KEYS[1]), redis.call('PTTL', KEYS[1])
if ARGV[1] == '1' or left < 0 then
	left = tonumber(ARGV[2])
	redis.call('PEXPIRE', KEYS[1], left)
end
return {count, left}`

const countOrBegin = `
local left, length = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left < 1 then
	redis.call('SET', KEYS[1], '1', 'PX', length)
	return {1, length}
end
local count = redis.call('INCR', KEYS[1])
if ARGV[1] ~= '1' then return {count, left} end
redis.call('PEXPIRE', KEYS[1], length)
return {count, length}`

const countOrBegin6 = `
local left, length = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])
if left > 0 then return {redis.call('INCR', KEYS[1]), left} end
redis.call('SET', KEYS[1], '1', 'PX', length)
return {1, length}`

const textAndLeft = `return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`

const countAndBan = `
local count, left = redis.call('INCR', KEYS[1]), redis.call('PTTL', KEYS[1])
local over, most = count - tonumber(ARGV[2]), tonumber(ARGV[3])
if left == -1 or over > 0 and ARGV[4] == 'true' then
	left = tonumber(ARGV[1])
	redis.call('PEXPIRE', KEYS[1], left)
end
return {count, left, over > most and most ~= -1}`

const countAndExtend = `
local count, left = redis.call('INCR', KEYS[1]), redis.call('PTTL', KEYS[1])
if left == -1 or count > tonumber(ARGV[2]) and ARGV[3] == 'true' then
	left = tonumber(ARGV[1])
	redis.call('PEXPIRE', KEYS[1], left)
end
return {count, left}`

const countAndDouble = `
local count, left = redis.call('INCR', KEYS[1]), redis.call('PTTL', KEYS[1])
local over, length = count - tonumber(ARGV[2]), tonumber(ARGV[1])
if left == -1 or over > 0 and ARGV[3] == 'true' then
	left = length
elseif over > 0 and ARGV[4] == 'true' then
	left = math.min(length * 2 ^ (over - 1), 2 ^ 53 - 1)
else
	return {count, left}
end
redis.call('PEXPIRE', KEYS[1], left)
return {count, left}`

const countFromOneAndDouble = `
local count, length = redis.call('INCR', KEYS[1]), tonumber(ARGV[1])
local over = count - tonumber(ARGV[2])
if count > 1 or count < 1 then
	if over <= 0 or ARGV[3] ~= 'true' and ARGV[4] ~= 'true' then return {count, redis.call('PTTL', KEYS[1])} end
	if ARGV[3] ~= 'true' then length = math.min(length * 2 ^ (over - 1), 2 ^ 53 - 1) end
end
redis.call('PEXPIRE', KEYS[1], length)
return {count, length}`

const countAndLeftOrNone = `
local count = redis.call('GET', KEYS[1])
return count and {tonumber(count), math.max(0, redis.call('PTTL', KEYS[1]))} or {0, 0}`

const countAndBlock = `
local count, left, length = redis.call('INCR', KEYS[1]), redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left < 1 then
	left = length
	redis.call('PEXPIRE', KEYS[1], left)
end
local blocked, rest = redis.call('GET', KEYS[2]), 0
if blocked then
	rest = redis.call('PTTL', KEYS[2])
elseif count > tonumber(ARGV[3]) then
	blocked, rest = true, tonumber(ARGV[4])
	redis.call('SET', KEYS[2], '1', 'PX', rest)
end
if not blocked then return {count, left, 0, rest} end
if rest > 0 then return {count, left, 1, rest} end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], '1', 'PX', length)
return {1, length, 0, rest}`

const addAndExpire = `
local sum, left = redis.call('INCRBY', KEYS[1], ARGV[1]), tonumber(ARGV[2])
if sum ~= tonumber(ARGV[1]) then return {sum, redis.call('PTTL', KEYS[1])} end
if left > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {sum, left}`

const countAndLeft = `
local count = redis.call('GET', KEYS[1])
if not count then return {0, 0} end
return {tonumber(count), redis.call('PTTL', KEYS[1])}`

const (
	createFor = `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') and 1 or 0`
	create    = `return redis.call('SETNX', KEYS[1], ARGV[1])`
	swapFor   = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`
	swap = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`
)

// take takes tokens from a bucket at a time, and stores it on a condition.
func take(now, stores string) string {
	return strings.NewReplacer("NOW", now, "STORES", stores).Replace(`
local rate, most, wanted, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4]), NOW
local life, have = math.floor(most / rate * 2), tonumber(redis.call('GET', KEYS[1])) or most
local since = now - (tonumber(redis.call('GET', KEYS[2])) or 0)
if since > 0 then have = have + since * rate end
if have > most then have = most end
local passed = 0
if wanted <= have then passed, have = 1, have - wanted end
if STORES then
	redis.call('SET', KEYS[1], have, 'EX', life)
	redis.call('SET', KEYS[2], now, 'EX', life)
end
return {passed, have}`)
}

const addAndExpireSeconds = `
local amount = tonumber(ARGV[2])
local sum = redis.call('INCRBY', KEYS[1], amount)
if sum == amount then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return sum`

const noteMoments = `
local now, most, life, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if most < wanted then return nil end
local last = redis.call('LINDEX', KEYS[1], most - wanted)
if last and now - life <= tonumber(last) then return nil end
while wanted > 0 do
	redis.call('LPUSH', KEYS[1], now)
	wanted = wanted - 1
end
redis.call('LTRIM', KEYS[1], 0, most - 1)
redis.call('EXPIRE', KEYS[1], life)
return 1`

const searchMoments = `
local from, low, high, found = tonumber(ARGV[1]), 0, tonumber(ARGV[2]) - 1, nil
while high >= low do
	local at = math.floor((low + high) / 2)
	local moment = tonumber(redis.call('LINDEX', KEYS[1], at))
	if moment and from <= moment then
		low = at + 1
		found = {tostring(moment), low}
	else
		high = at - 1
	end
end
return found`

const walkMoments = `
local oldest, count = nil, 0
for _, text in ipairs(redis.call('LRANGE', KEYS[1], 0, tonumber(ARGV[2]))) do
	local moment = tonumber(text)
	if moment < tonumber(ARGV[1]) then break end
	oldest, count = math.min(oldest or moment, moment), count + 1
end
return oldest and {tostring(oldest), count}`

const slideAndTake = `
local most, length, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000, tonumber(ARGV[3])
if most < wanted then return nil end
local left = redis.call('PTTL', KEYS[2])
if left < length and left > 0 then
	redis.call('RENAME', KEYS[2], KEYS[1])
	redis.call('SET', KEYS[2], '0', 'PX', length + left)
end
local before = (tonumber(redis.call('GET', KEYS[1])) or 0) * math.max(redis.call('PTTL', KEYS[1]), 0)
local count = tonumber(redis.call('GET', KEYS[2])) or 0
if math.floor(before / length) + count + wanted > most then return nil end
if redis.call('EXISTS', KEYS[2]) == 0 then
	redis.call('SET', KEYS[2], wanted, 'PX', 2 * length)
else
	redis.call('INCRBY', KEYS[2], wanted)
end
return 1`

const slideAndLook = `
local length = 1000 * tonumber(ARGV[1])
local function look()
	return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('PTTL', KEYS[2])}
end
local seen = look()
if seen[4] < 1 or seen[4] >= length then return seen end
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('SET', KEYS[2], '0', 'PX', seen[4] + length)
return look()`
