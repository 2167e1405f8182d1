-- What every script of the frontier begins with: its keys, its records, and the two-level queue.
--
-- Calling convention of every script
--   KEYS[1]  the prefix P of all keys of one shard, with its hash tag: crawlprio:{<crawl>:<shard>}
--   ARGV[1]  worker: a text that names the calling process, new for each process
--   ARGV[2]  seq: number of the call, which grows from call to call of a worker. A call whose number
--            is not above the last one done is not done again, so a worker may repeat what it does
--            not know to have arrived; one that leaves out a number is refused (GAP).
--   ARGV[3]  and on: what each script says
--   returns  {now, waiting, leased, leased by others, ready_at, links, result...}: the server's Unix
--            time in seconds, counts, when a page can leave (0: now; inf: that takes an event)
--
-- Keys, all under P; <page> and <site> are numbers from 0 in order of discovery
--   :config          hash    what the crawl was begun with: rules of the ordering, delays, budgets
--   :counts          hash    see COUNTS below
--   :i:<bucket>      hash    hash of an identity -> page; as many buckets as config `buckets`
--   :p:<page / 128>  hash    page % 128 -> record of a page, packed as PAGE
--   :u:<page / 64>   hash    page % 64 -> URL of a page that waits or is leased: "h" (http) or "s"
--                            (https) and what follows the host, or "u" and the whole URL
--   :given           hash    page -> first key that its caller gave, until a visit shows the page
--   :requests        hash    page -> its requests that wait, msgpack of {{priority, number, request}}
--   :hosts           hash    host -> site
--   :sites           hash    site -> record of a site, packed as SITE, and its host
--   :slots           hash    host -> "delay limit" of sites with settings of their own; -1: none
--   :domains         hash    registered domain -> pages known, where a budget counts them
--   :patterns        hash    hash of a pattern of URLs -> pages known, likewise
--   :w:<site>[:<tier>]  zset  pages of a site that wait, packed as >I4, by -key; no tier: tier 0
--   :t:<site>        zset    tiers other than 0 in which pages of a site wait, by -tier
--   :ready:<tier>    zset    first page of each site that is ready, packed as >I4, by -(site's key)
--   :tiers           zset    tiers in which sites may be ready, by -tier
--   :delayed         zset    sites inside their delay, by the time at which they are ready
--   :workers         zset    workers, by the time at which they are taken for dead
--   :worker:<worker> hash    seq: number of the last call done; name; since: Unix time
--   :leases:<worker> hash    lease -> msgpack of {page or -1, site, holds its site, request, its
--                            priority, since}
--   :attempts        hash    page -> how often a worker died with it
--   :dead            list    dead letters, oldest first: JSON of page, url, reason, request, at
--   :visits          stream  pages and visits in the order in which they came (docs/distributed.md)
--   :elected         hash    who computes keys that no script can, see `elect.lua`
--
-- A tier is 2 x priority + (hot: 1). Pages leave by larger tier, larger key, smaller number; sites
-- likewise by their first page, or by larger number of waiting pages in place of the key.

local P, worker, seq = KEYS[1], ARGV[1], tonumber(ARGV[2])
local call, floor, max, min, huge = redis.call, math.floor, math.max, math.min, math.huge
local pack, unpack_struct, format = struct.pack, struct.unpack, string.format

local UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
local OBSERVED, UNFILTERED, REPEATED = 1, 2, 4
local NOWHERE, READY, DELAYED = 0, 1, 2
local ON_VISIT = 2 ^ 40
local LOWEST, HIGHEST = -(2 ^ 30), 2 ^ 30 - 1

local clock = call('TIME')
local server_now = clock[1] + clock[2] / 1e6
local now = server_now
local ask_again_at = 0 -- no page leaves before, as this script turned out

-- A number as text, from which the same number is read again.
local function exact(number)
  return format('%.17g', number)
end

-- Config and counts

local config = {}
do
  local flat = call('HGETALL', P .. ':config')
  for at = 1, #flat, 2 do
    config[flat[at]] = tonumber(flat[at + 1]) or flat[at + 1]
  end
end

-- pages: known; keyed: those that have a key; visits: observed once each; waiting: requests that
-- wait; leased: leases; links: pages that came to wait as plain links; initial: key of pages that
-- have none yet; parent: key of the page visited last; number: requests numbered; rest_until: no page leaves
-- before; max_delay: the longest delay of a site in seconds; taken_over: leases of dead workers;
-- recorded: entries of the stream.
local COUNTS = {
  'pages', 'keyed', 'visits', 'waiting', 'leased', 'links', 'initial', 'parent', 'number',
  'rest_until', 'max_delay', 'ready', 'taken_over', 'dead', 'recorded',
}
local counts, counts_before = {}, {}
do
  local values = call('HMGET', P .. ':counts', unpack(COUNTS))
  for at, name in ipairs(COUNTS) do
    counts[name] = tonumber(values[at] or 0)
    counts_before[name] = counts[name]
  end
end

-- Pages

local PAGE = '>dI4i4I2BBB' -- key, site, tier, depth, state, leases, flags
local pages = {}

local function page_of(id)
  local page = pages[id]
  if page == nil then
    local record = call('HGET', P .. ':p:' .. floor(id / 128), id % 128)
    page = {}
    page.key, page.site, page.tier, page.depth, page.state, page.leases, page.flags =
      unpack_struct(PAGE, record)
    pages[id] = page
  end
  return page
end

local function save_page(id, page)
  call('HSET', P .. ':p:' .. floor(id / 128), id % 128,
    pack(PAGE, page.key, page.site, page.tier, page.depth, page.state, page.leases, page.flags))
end

local function has_flag(page, flag)
  return floor(page.flags / flag) % 2 == 1
end

local function set_flag(page, flag, on)
  if has_flag(page, flag) ~= on then
    page.flags = page.flags + (on and flag or -flag)
    page.dirty = true
  end
end

local function bucket_of(hash)
  return P .. ':i:' .. (unpack_struct('>I4', hash) % config.buckets)
end

local function find_page(hash)
  return tonumber(call('HGET', bucket_of(hash), hash))
end

-- Sites

-- leases, limit (0: as for others), waiting, known, tiers other than 0, first page and place,
-- visited (pages of this visit), refusals, unstarted; then tier of its place, own delay and
-- Crawl-delay (-1: none), times (ready, started, ended, paused until, refused), and the key of the
-- first page when the site was placed.
local SITE = '>I4I4I4I4I4I4BI4I4I4ddddddddd'
local sites = {}

local function site_of(id)
  local site = sites[id]
  if site == nil then
    local record = call('HGET', P .. ':sites', id)
    local at
    site = { id = id }
    site.leased, site.limit, site.waiting, site.known, site.tiers, site.first, site.place,
      site.visited, site.refusals, site.unstarted, site.place_tier, site.own_delay,
      site.crawl_delay, site.ready_at, site.started_at, site.ended_at, site.paused_until,
      site.refused_at, site.first_key, at = unpack_struct(SITE, record)
    site.host, site.record = record:sub(at), record
    sites[id] = site
  end
  return site
end

local function save_site(site)
  local record = pack(SITE, site.leased, site.limit, site.waiting, site.known, site.tiers, site.first,
      site.place, site.visited, site.refusals, site.unstarted, site.place_tier, site.own_delay,
      site.crawl_delay, site.ready_at, site.started_at, site.ended_at, site.paused_until,
      site.refused_at, site.first_key) .. site.host
  if record ~= site.record then
    call('HSET', P .. ':sites', site.id, record)
  end
end

-- The site of a host, which is new if the host has not been seen.
local function site_of_host(host)
  local id = tonumber(call('HGET', P .. ':hosts', host))
  if id then
    return site_of(id)
  end
  id = call('HLEN', P .. ':hosts')
  call('HSET', P .. ':hosts', host, id)
  local delay, limit = -1, 0
  local slot = call('HGET', P .. ':slots', host)
  if slot then
    local own_delay, own_limit = slot:match('(%S+) (%S+)')
    delay, limit = tonumber(own_delay), max(tonumber(own_limit), 0)
  end
  sites[id] = {
    id = id, host = host, leased = 0, limit = limit, waiting = 0, known = 0, tiers = 0, first = 0,
    place = NOWHERE, visited = 0, refusals = 0, unstarted = 0, place_tier = 0, own_delay = delay,
    crawl_delay = -1, ready_at = -huge, started_at = -huge, ended_at = -huge,
    paused_until = -huge, refused_at = -huge, first_key = 0,
  }
  return sites[id]
end

local function limit_of(site)
  return site.limit > 0 and site.limit or config.limit
end

-- Seconds between a fetch that took `elapsed` and the next start on its site.
local function delay_of(site, elapsed)
  local delay = site.own_delay
  if delay < 0 then
    delay = config.delay
    if config.small_site_delay >= 0 and site.known < config.small_site_pages then
      delay = config.small_site_delay
    end
  end
  delay = max(delay, site.crawl_delay, 0)
  if config.adaptive > 0 then
    delay = max(delay, min(config.adaptive * elapsed, config.max_adaptive))
  end
  counts.max_delay = max(counts.max_delay, delay)
  return delay
end

-- The queue

local function waiting_key(site, tier)
  return P .. ':w:' .. site.id .. (tier == 0 and '' or ':' .. exact(tier))
end

-- Tier, key and number of the first waiting page of a site; nil without one.
local function first_of(site)
  local tier = 0
  if site.tiers > 0 then
    tier = tonumber(call('ZRANGE', P .. ':t:' .. site.id, 0, 0)[1])
    if tier < 0 and call('EXISTS', waiting_key(site, 0)) == 1 then
      tier = 0
    end
  end
  local found = call('ZRANGE', waiting_key(site, tier), 0, 0, 'WITHSCORES')
  if #found == 0 then
    return nil
  end
  return tier, -tonumber(found[2]), unpack_struct('>I4', found[1])
end

local function stand_nowhere(site)
  if site.place == READY then
    call('ZREM', P .. ':ready:' .. exact(site.place_tier), pack('>I4', site.first))
    counts.ready = counts.ready - 1
  elseif site.place == DELAYED then
    call('ZREM', P .. ':delayed', site.id)
  end
  site.place = NOWHERE
end

-- Place a site where its first page, its leases and its time say.
local function place(site)
  site.to_place = false
  local tier, key, first
  if site.leased < limit_of(site) then
    tier, key, first = first_of(site)
  end
  if tier == nil then
    stand_nowhere(site)
  elseif site.ready_at > now then
    if site.place == READY then
      stand_nowhere(site)
    end
    call('ZADD', P .. ':delayed', exact(site.ready_at), site.id)
    site.place = DELAYED
  else
    tier = tier + (site.visited > 0 and ON_VISIT or 0)
    if not (site.place == READY and site.first == first and site.place_tier == tier) then
      stand_nowhere(site)
      counts.ready = counts.ready + 1
    end
    site.first_key = key
    if config.by_waiting_pages == 1 then
      key = site.waiting
    end
    if tier ~= 0 then
      call('ZADD', P .. ':tiers', exact(-tier), exact(tier))
    end
    call('ZADD', P .. ':ready:' .. exact(tier), exact(-key), pack('>I4', first))
    site.place, site.first, site.place_tier = READY, first, tier
  end
end

-- Have a site placed at the end of the script.
local function touch(site)
  site.to_place = true
end

-- Have a site placed, unless a page that came to wait, or changed its key, is not its first one.
local function touch_by(site, id, page)
  if site.place == DELAYED then
    return
  end
  if site.place == READY and site.first ~= id and config.by_waiting_pages ~= 1 then
    local tier = site.place_tier >= ON_VISIT / 2 and site.place_tier - ON_VISIT or site.place_tier
    local is_later = page.tier < tier
    if page.tier == tier then
      is_later = page.key < site.first_key or (page.key == site.first_key and id > site.first)
    end
    if is_later then
      return
    end
  end
  touch(site)
end

local function enter(id, page, site, score)
  local key = waiting_key(site, page.tier)
  local is_new = call('ZADD', key, score or exact(-page.key), pack('>I4', id)) == 1
  if page.tier ~= 0 and is_new then
    site.tiers = site.tiers + call('ZADD', P .. ':t:' .. site.id, exact(-page.tier), exact(page.tier))
  end
end

local function leave(id, page, site)
  local key = waiting_key(site, page.tier)
  call('ZREM', key, pack('>I4', id))
  if page.tier ~= 0 and call('EXISTS', key) == 0 then
    site.tiers = site.tiers - call('ZREM', P .. ':t:' .. site.id, exact(page.tier))
  end
end

-- Queue a page that does not wait.
local function push(id, page, tier, key)
  local site = site_of(page.site)
  page.tier, page.key, page.state, page.dirty = tier, key, WAITING, true
  site.waiting = site.waiting + 1
  counts.waiting = counts.waiting + 1
  enter(id, page, site)
  touch_by(site, id, page)
end

-- Change the key of a page that waits.
local function rekey(id, page, key)
  if page.key ~= key then
    local site = site_of(page.site)
    page.key, page.dirty = key, true
    enter(id, page, site)
    touch_by(site, id, page)
  end
end

-- Change the tier of a page that waits.
local function retier(id, page, tier)
  if page.tier == tier then
    return
  end
  local site = site_of(page.site)
  -- Its key may have changed since it came to wait, which is no reason to stand elsewhere.
  local score = call('ZSCORE', waiting_key(site, page.tier), pack('>I4', id))
  leave(id, page, site)
  page.tier, page.dirty = tier, true
  enter(id, page, site, score)
  touch(site)
end

-- The key at which a page is to wait: pages that no visit has shown yet have that of new ones.
local function key_to_wait(id, page)
  return id < counts.keyed and page.key or counts.initial
end

-- Queue a page at a request priority; one that waits already keeps the higher priority.
local function queue(id, page, priority)
  local tier = 2 * min(max(priority, LOWEST), HIGHEST)
  local hot = page.tier % 2
  if page.state == WAITING then
    retier(id, page, max(tier, page.tier - hot) + hot)
  else
    push(id, page, tier + hot, key_to_wait(id, page))
  end
end

-- Requests that wait for a page

local function requests_of(id)
  local packed = call('HGET', P .. ':requests', id)
  return packed and cmsgpack.unpack(packed) or {}
end

local function keep_requests(id, requests)
  if #requests == 0 then
    call('HDEL', P .. ':requests', id)
  else
    call('HSET', P .. ':requests', id, cmsgpack.pack(requests))
  end
end

-- Keep one more request of a page; '' stands for a plain GET.
local function add_request(id, priority, request)
  local requests = requests_of(id)
  counts.number = counts.number + 1
  counts.waiting = counts.waiting + (#requests > 0 and 1 or 0)
  requests[#requests + 1] = { priority, counts.number, request }
  keep_requests(id, requests)
end

-- Where the first request of a page stands: larger priority first, then older.
local function first_request(requests)
  local first
  for at, request in ipairs(requests) do
    local best = requests[first]
    if best == nil or request[1] > best[1] or (request[1] == best[1] and request[2] < best[2]) then
      first = at
    end
  end
  return first
end

-- Take the first request of a page, and its priority; '' where there is none.
local function pop_request(id)
  local requests = requests_of(id)
  local at = first_request(requests)
  if at == nil then
    return '', 0
  end
  local request = table.remove(requests, at)
  counts.waiting = counts.waiting - (#requests > 0 and 1 or 0)
  keep_requests(id, requests)
  return request[3], request[1]
end

-- Queue a page again if more requests wait for it.
local function wait_for_rest(id, page)
  if page.state ~= WAITING then
    local requests = requests_of(id)
    local at = first_request(requests)
    if at and page.leases < 255 then
      queue(id, page, requests[at][1])
    end
  end
end

-- URLs

local function keep_url(id, host, url)
  local scheme, rest = url:match('^(https?)://' .. host:gsub('%p', '%%%0') .. '(/.*)$')
  local kept = scheme and (scheme == 'http' and 'h' or 's') .. rest or 'u' .. url
  call('HSET', P .. ':u:' .. floor(id / 64), id % 64, kept)
end

local function url_of(id, host)
  local kept = call('HGET', P .. ':u:' .. floor(id / 64), id % 64)
  if not kept then
    return nil
  end
  local form, rest = kept:sub(1, 1), kept:sub(2)
  if form == 'u' then
    return rest
  end
  return (form == 'h' and 'http://' or 'https://') .. host .. rest
end

-- Leases

local function lease_record(page, site, holds, request, priority, since)
  return cmsgpack.pack({ page, site, holds, request, priority, since })
end

local function find_lease(of_worker, lease)
  local packed = call('HGET', P .. ':leases:' .. of_worker, lease)
  return packed and cmsgpack.unpack(packed) or nil
end

local function forget_lease(of_worker, lease)
  call('HDEL', P .. ':leases:' .. of_worker, lease)
  counts.leased = counts.leased - 1
end

-- End a page's hold on its site.
local function release(id, page)
  page.leases, page.dirty = page.leases - 1, true
  if page.state == LEASED and page.leases == 0 then
    page.state = DONE
  end
  local site = site_of(page.site)
  site.leased = site.leased - 1
  touch(site)
end

-- Let the page of a lease that has ended wait again.
--   request   '' is a plain GET
--   with      priority of the request among those of its page
--   priority  at which the page waits if that is higher; nil: as before
local function wait_again(id, page, holds, request, with, priority)
  if holds then
    release(id, page)
  end
  if page.state ~= WAITING then
    push(id, page, page.tier, key_to_wait(id, page))
  end
  if request ~= '' then
    add_request(id, with, request)
  end
  if priority then
    queue(id, page, priority)
  end
end

-- Set an entry aside: it is neither run nor lost.
local function bury(id, site, request, reason)
  call('RPUSH', P .. ':dead', cjson.encode({
    page = id, url = url_of(id, site.host), reason = reason, request = request, at = now,
  }))
  call('HDEL', P .. ':attempts', id)
  counts.dead = counts.dead + 1
end

-- Put back leases of a worker; `blames`: it died with them.
local function take_over(of_worker, leases, blames)
  for _, lease in ipairs(leases) do
    local record = find_lease(of_worker, lease)
    if record then
      local id, site = record[1], site_of(record[2])
      forget_lease(of_worker, lease)
      counts.taken_over = counts.taken_over + (blames and 1 or 0)
      -- Its fetch may have ended this moment.
      site.ready_at = max(site.ready_at, now + delay_of(site, 0))
      if id < 0 then
        site.leased = site.leased - 1
        touch(site)
      else
        local page = page_of(id)
        if blames and call('HINCRBY', P .. ':attempts', id, 1) >= config.max_attempts then
          bury(id, site, record[4], 'its worker ended ' .. config.max_attempts .. ' times')
          if record[3] then
            release(id, page)
          end
        else
          wait_again(id, page, record[3], record[4], record[5], nil)
        end
      end
    end
  end
end

-- Calls

-- Note that the worker lives; return whether this call was done before, and an error that ends the
-- script: there is no crawl, or a call is missing before this one. `beat` may leave calls out: a
-- server that has lost its last second says so by the error, and the worker begins again with it.
local function begin(is_beat)
  if config.buckets == nil then
    return false, redis.error_reply('NOCRAWL there is no crawl under ' .. P)
  end
  local key = P .. ':worker:' .. worker
  local known = tonumber(call('HGET', key, 'seq') or -1)
  if known >= 0 and seq > known + 1 and not is_beat then
    return false, redis.error_reply('GAP call ' .. exact(known) .. ' was the last')
  end
  call('ZADD', P .. ':workers', exact(now + config.lease_seconds), worker)
  if seq <= known then
    return not is_beat
  end
  call('HSET', key, 'seq', exact(seq))
  return false
end

-- Write back what has changed, and say how things stand.
local function finish(...)
  for _, site in pairs(sites) do
    if site.to_place then
      place(site)
    end
  end
  for id, page in pairs(pages) do
    if page.dirty then
      save_page(id, page)
    end
  end
  for _, site in pairs(sites) do
    save_site(site)
  end
  for _, name in ipairs(COUNTS) do
    if counts[name] ~= counts_before[name] then
      call('HSET', P .. ':counts', name, exact(counts[name]))
    end
  end
  local ready_at = huge
  if counts.ready > 0 then
    ready_at = 0
  else
    local soonest = call('ZRANGE', P .. ':delayed', 0, 0, 'WITHSCORES')
    ready_at = tonumber(soonest[2]) or huge
  end
  if ready_at < huge then
    ready_at = max(ready_at, counts.rest_until, ask_again_at)
  end
  local own = call('HLEN', P .. ':leases:' .. worker)
  return {
    exact(server_now), counts.waiting, counts.leased, counts.leased - own, exact(ready_at), counts.links,
    ...,
  }
end
