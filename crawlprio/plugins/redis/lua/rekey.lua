-- Write keys that the elected worker has computed. Idempotent; ARGV[2] is ignored.
--
--   ARGV[3]  fencing token of its term; refused if another worker has been elected (NOTELECTED)
--   ARGV[4]  number of the last stream entry whose keys it has written
--   ARGV[5]  number of the entry whose keys this call completes; equal to ARGV[4]: more calls follow
--   ARGV[6]  id of that entry in the stream. If the entry does not exist, or ARGV[4] differs from the
--            number stored here, the server has lost its last second (LOST)
--   ARGV[7]  pages and keys, packed as >I4d each; waiting pages move
--   ARGV[8]  likewise, but waiting pages keep their place until they are queued again
--   ARGV[9]  hot pages, packed as >I4 each
--   ARGV[10] key of pages that no visit has shown

if config.limit == nil then
  return redis.error_reply('NOCRAWL no crawl under ' .. P)
end
local token, read = unpack(call('HMGET', P .. ':elected', 'token', 'read'))
read = read or '0'
if token ~= ARGV[3] then
  return redis.error_reply('NOTELECTED another worker was elected')
end
local follows = ARGV[5] ~= ARGV[4]
if read == ARGV[5] and follows then
  return finish()
end
if read ~= ARGV[4] or (follows and #call('XRANGE', P .. ':visits', ARGV[6], ARGV[6]) == 0) then
  return redis.error_reply('LOST the server lost entries that were read')
end

-- Set the keys of pages, read in one round trip each for pages and their sites; return the pages.
local function set_keys(packed)
  local ids, keys, their_sites = {}, {}, {}
  for at = 1, #packed, 12 do
    ids[#ids + 1], keys[#keys + 1] = unpack_struct('>I4d', packed, at)
  end
  read_pages(ids)
  for at, id in ipairs(ids) do
    local page = page_of(id)
    page.key, page.dirty, their_sites[at] = keys[at], true, page.site
  end
  read_sites(their_sites)
  return ids
end

for _, id in ipairs(set_keys(ARGV[7])) do
  local page = page_of(id)
  if page.state == WAITING then
    enqueue(id, page, site_of(page.site))
    touch_if_head(site_of(page.site), id, page)
  end
end
set_keys(ARGV[8])
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
call('HSET', P .. ':elected', 'read', ARGV[5], 'until', exact(now + config.lease_seconds))
return finish()
