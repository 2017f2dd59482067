-- Deletes the key of a request, if the claim still exists and has no response.
-- KEYS[1]: the request. ARGV: the token of the claim.
-- Returns 1, or 0 if the key is absent, has another token or has a response.
local kept = redis.pcall('HMGET', KEYS[1], 'token', 'status')
if kept.err or kept[1] ~= ARGV[1] or kept[2] ~= 'PROCESSING' then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
