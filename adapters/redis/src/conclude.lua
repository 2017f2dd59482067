-- Keeps the answer of a request, until the request would have expired, if the claim still stands.
-- KEYS[1]: the request. ARGV: the token of the claim; the token of the answer, its HTTP status, its data.
-- Answers 1, or 0 if something else stands there, or nothing.
local kept = redis.pcall('HMGET', KEYS[1], 'token')
if kept.err or kept[1] ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'status', 'SUCCESS', 'token', ARGV[2], 'answerStatus', ARGV[3], 'result', ARGV[4])
return 1
