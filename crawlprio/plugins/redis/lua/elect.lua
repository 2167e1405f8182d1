-- Elect the worker that computes keys, or renew or end its term.
--   ARGV[2]  claim: begin a term if no other worker has one, or renew it; resign: end it
--   ARGV[3]  length of a term, in seconds
--   ARGV[4]  name of the worker, for people
--   returns  {token, read}: fencing token of the term, 0 if another worker is elected; number of the
--            last stream entry whose keys are in Redis
--
-- Keys
--   :elected  hash  worker; name; token, which grows with each term and fences off earlier workers;
--                   until: Unix time at which the term expires; read: see above

if config.limit == nil then
  return redis.error_reply('NOCRAWL no crawl under ' .. P)
end
local key = P .. ':elected'
local owner, until_, read = unpack(call('HMGET', key, 'worker', 'until', 'read'))
local is_held = owner and owner ~= '' and tonumber(until_) >= now
if ARGV[2] == 'resign' then
  if owner == worker then
    call('HSET', key, 'worker', '', 'until', '0')
  end
  return { 0, tonumber(read or 0) }
end
if is_held and owner ~= worker then
  return { 0, tonumber(read or 0) }
end
if owner ~= worker then
  call('HINCRBY', key, 'token', 1)
end
call('HSET', key, 'worker', worker, 'name', ARGV[4],
  'until', exact(now + tonumber(ARGV[3])))
return { tonumber(call('HGET', key, 'token')), tonumber(read or 0) }
