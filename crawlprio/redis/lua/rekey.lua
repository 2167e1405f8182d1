-- Write back the keys that the elected worker has computed. Done twice it is done once; ARGV[2] is
-- not looked at.
--
--   ARGV[3]  token of its mandate; one that another has followed is refused (NOTELECTED)
--   ARGV[4]  number of the entry of the stream whose keys were written last, by what it knows
--   ARGV[5]  number of the entry whose keys are written with this call; the former: more will follow
--   ARGV[6]  name of that entry. Where the server does not have it, or disagrees about ARGV[4], it
--            has lost its last second (LOST)
--   ARGV[7]  pages and keys, packed as >I4d each: they stand by these keys from now on
--   ARGV[8]  likewise: those that wait already stay where they stand, until they wait again
--   ARGV[9]  pages for the hot queue, packed as >I4 each
--   ARGV[10] key of pages that no visit has shown yet

if config.limit == nil then
  return redis.error_reply('NOCRAWL there is no crawl under ' .. P)
end
local token, read = unpack(call('HMGET', P .. ':elected', 'token', 'read'))
read = read or '0'
if token ~= ARGV[3] then
  return redis.error_reply('NOTELECTED another worker computes keys by now')
end
local follows = ARGV[5] ~= ARGV[4]
if read == ARGV[5] and follows then
  return finish()
end
if read ~= ARGV[4] or (follows and #call('XRANGE', P .. ':visits', ARGV[6], ARGV[6]) == 0) then
  return redis.error_reply('LOST the server has lost entries that were read')
end
for at = 1, #ARGV[7], 12 do
  local id, key = unpack_struct('>I4d', ARGV[7], at)
  local page = page_of(id)
  page.key, page.dirty = key, true
  if page.state == WAITING then
    enter(id, page, site_of(page.site))
    touch_by(site_of(page.site), id, page)
  end
end
for at = 1, #ARGV[8], 12 do
  local id, key = unpack_struct('>I4d', ARGV[8], at)
  local page = page_of(id)
  page.key, page.dirty = key, true
end
for at = 1, #ARGV[9], 4 do
  local id = unpack_struct('>I4', ARGV[9], at)
  local page = page_of(id)
  if page.tier % 2 == 0 then
    if page.state == WAITING then
      retier(id, page, page.tier + 1)
    else
      page.tier, page.dirty = page.tier + 1, true
    end
  end
end
counts.initial = tonumber(ARGV[10])
call('HSET', P .. ':elected', 'read', ARGV[5], 'until', exact(server_now + config.lease_seconds))
return finish()
