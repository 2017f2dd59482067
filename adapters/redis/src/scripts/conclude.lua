-- Stores the response of a request, until the request expires, if the claim still exists.
-- KEYS[1]: the request. ARGV: the token of the claim; the token, HTTP status and data of the response.
-- Returns 1, or 0 if the key is absent or has another token.
local kept = redis.pcall('HMGET', KEYS[1], 'token')
if kept.err or kept[1] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'status', 'SUCCESS', 'token', ARGV[2], 'answerStatus', ARGV[3], 'result', ARGV[4])
return 1
