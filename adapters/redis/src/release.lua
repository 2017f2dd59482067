-- Frees the key of a request, if the claim still stands and is not answered.
-- KEYS[1]: the request. ARGV: the token of the claim.
-- Answers 1, or 0 if something else stands there, or nothing.
local kept = redis.pcall('HMGET', KEYS[1], 'token', 'status')
if kept.err or kept[1] ~= ARGV[1] or kept[2] ~= 'PROCESSING' then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
