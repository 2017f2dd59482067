-- Claims an idempotency key (seed 003 §2: set if absent), by the clock of this server, in milliseconds.
-- KEYS[1]: the request. ARGV: the token of the entry that may be replaced, body hash, new token, trace id, lease
-- duration, lifetime of the request, offset added to the clock (tests).
-- Returns {1, now, {}} if claimed; {0, now, stored fields} if the entry has another token; {2, now, {}} if the key is
-- not a hash.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[7]

local kept = redis.pcall('HMGET', KEYS[1],
  'bodyHash', 'token', 'status', 'leaseUntil', 'answerStatus', 'result', 'traceId', 'createdAt', 'expireAt')
if kept.err then
  return {2, now, {}}
end
local token = kept[2]
if token and token ~= ARGV[1] then
  return {0, now, kept}
end

local function whole(number)
  return string.format('%d', number)
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'bodyHash', ARGV[2], 'token', ARGV[3], 'status', 'PROCESSING', 'traceId', ARGV[4],
  'leaseUntil', whole(now + ARGV[5]), 'createdAt', whole(now), 'expireAt', whole(now + ARGV[6]))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {1, now, {}}
