-- Claims an idempotency key (seed 003 §2: set it if there is none), by this server's clock, in milliseconds.
-- KEYS[1]: the request. ARGV: the token of what may be replaced, body hash, token, trace id; how long the lease and the whole
-- request last; what is added to the clock (tests).
-- Answers {1, now, {}} if it is claimed; {0, now, what stands there} if not; {2, now, {}} if that is no request.
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
