-- Takes one token of a bucket (seed 003 §3), by the clock of this server. Integers only, so nothing is lost by rounding.
-- KEYS[1]: the bucket. ARGV: capacity, time per token, offset added to the clock (tests). Times are in microseconds.
-- Returns {1, remaining tokens}, or {0, time until the next token}.
local capacity, every = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + ARGV[3]

local kept = redis.pcall('HMGET', KEYS[1], 'tokens', 'lastRefillTime')
if kept.err then
  -- The key exists with another type, so it is not a bucket: replace it.
  redis.call('DEL', KEYS[1])
  kept = {}
end
local tokens, last = tonumber(kept[1] or ''), tonumber(kept[2] or '')
if not (tokens and last and tokens >= 0 and last >= 0) then
  tokens, last = capacity, now
end

local set_back = now < last
if set_back then
  last = now
end
local grown = math.floor((now - last) / every)
if tokens + grown >= capacity then
  tokens, last = capacity, now
else
  tokens, last = tokens + grown, last + grown * every
end

local taken = tokens >= 1
if taken then
  tokens = tokens - 1
end
if taken or set_back then
  redis.call('HSET', KEYS[1], 'tokens', string.format('%d', tokens), 'lastRefillTime', string.format('%d', last))
  redis.call('PEXPIRE', KEYS[1], math.ceil(capacity * every / 1000) * 2 + 1000)
end
if taken then
  return {1, tokens}
end
return {0, last + every - now}
