-- Report the state of a crawl. Read-only; ARGV[1] and ARGV[2] are ignored.
--
--   ARGV[3]  rows per list at most
--   returns  JSON: now, state, ordering, sites, delayed, counts, elected, workers, leases; head: first
--            page of each ready site, in order; next: delayed sites, earliest first; dead: dead letters,
--            newest last

if config.limit == nil then
  return redis.error_reply('NOCRAWL no crawl under ' .. P)
end
local most = tonumber(ARGV[3])

local function page_report(id)
  local page = page_of(id)
  local site = site_of(page.site)
  return {
    page = id, url = url_of(id, site.host) or '', site = site.host, key = exact(page.key),
    priority = floor(page.tier / 2), hot = page.tier % 2, depth = page.depth,
  }
end

local workers, leases = {}, {}
for _, name in ipairs(call('ZRANGE', P .. ':workers', 0, -1)) do
  local known = call('HMGET', P .. ':worker:' .. name, 'name', 'since')
  local held = call('HKEYS', P .. ':leases:' .. name)
  workers[#workers + 1] = {
    worker = name, name = known[1] or '', since = tonumber(known[2] or now), leases = #held,
    dead_at = tonumber(call('ZSCORE', P .. ':workers', name)),
  }
  for _, lease in ipairs(held) do
    local record = find_lease(name, lease)
    leases[#leases + 1] = {
      worker = known[1] or '', since = record[6], site = site_of(record[2]).host,
      page = record[1],
    }
  end
end
table.sort(leases, function(one, other) return one.since < other.since end)
for at, lease in ipairs(leases) do
  if at > most then
    leases[at] = nil
  elseif lease.page >= 0 then
    lease.url = url_of(lease.page, lease.site)
  end
end

local head = {}
for _, tier in ipairs(call('ZRANGE', P .. ':tiers', 0, -1)) do
  if #head < most then
    for _, first in ipairs(call('ZRANGE', P .. ':ready:' .. tier, 0, most - #head - 1)) do
      head[#head + 1] = page_report((unpack_struct('>I4', first)))
    end
  end
end

local soon = {}
local due = call('ZRANGE', P .. ':delayed', 0, most - 1, 'WITHSCORES')
for at = 1, #due, 2 do
  local site = site_of(tonumber(due[at]))
  soon[#soon + 1] = { site = site.host, waiting = site.waiting, ready_at = tonumber(due[at + 1]) }
end

local dead = {}
for at, letter in ipairs(call('LRANGE', P .. ':dead', -most, -1)) do
  dead[at] = cjson.decode(letter)
end

local elected = call('HMGET', P .. ':elected', 'name', 'until', 'read', 'worker')
return cjson.encode({
  now = now,
  state = call('HGET', P .. ':config', 'state') or '',
  ordering = config.ordering or call('HGET', P .. ':config', 'ordering') or '',
  sites = call('HLEN', P .. ':hosts') - 1,
  delayed = call('ZCARD', P .. ':delayed'),
  streamed = call('XLEN', P .. ':visits'),
  counts = counts,
  is_elected = config.elected == 1,
  elected = {
    name = elected[4] ~= '' and elected[1] or '', until_ = tonumber(elected[2] or 0),
    read = tonumber(elected[3] or 0),
  },
  workers = workers, leases = leases, head = head, next = soon, dead = dead,
})
