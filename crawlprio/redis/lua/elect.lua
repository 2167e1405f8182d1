-- Elect the worker that computes keys, renew its mandate, or end it. It stands alone, without
-- `common.lua`.
--
--   KEYS[1]  the prefix P
--   ARGV[1]  worker
--   ARGV[2]  claim: become the elected worker if there is none, or stay it; resign: be it no longer
--   ARGV[3]  seconds for which a mandate holds
--   ARGV[4]  name of the worker, for people
--   returns  {token, read}: the token of the mandate, 0 if another worker has it; the number of the
--            last entry of the stream whose keys are in Redis
--
-- Keys
--   :elected  hash  worker; name; token: grows with each mandate, so that one that has passed is refused;
--                   until: Unix time to which the mandate holds; read: see above

local P, worker = KEYS[1], ARGV[1]
if redis.call('EXISTS', P .. ':config') == 0 then
  return redis.error_reply('NOCRAWL there is no crawl under ' .. P)
end
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
local key = P .. ':elected'
local owner, until_, read = unpack(redis.call('HMGET', key, 'worker', 'until', 'read'))
local is_held = owner and owner ~= '' and tonumber(until_) >= now
if ARGV[2] == 'resign' then
  if owner == worker then
    redis.call('HSET', key, 'worker', '', 'until', '0')
  end
  return { 0, tonumber(read or 0) }
end
if is_held and owner ~= worker then
  return { 0, tonumber(read or 0) }
end
if owner ~= worker then
  redis.call('HINCRBY', key, 'token', 1)
end
redis.call('HSET', key, 'worker', worker, 'name', ARGV[4],
  'until', string.format('%.17g', now + tonumber(ARGV[3])))
return { tonumber(redis.call('HGET', key, 'token')), tonumber(read or 0) }
