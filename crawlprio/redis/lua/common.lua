-- What every script of the frontier begins with: its keys and its records.
--
-- Calling convention of every script
--   KEYS[1]  the prefix P of all keys of one shard, with its hash tag: crawlprio:{<crawl>:<shard>}
--   KEYS[2]  a key that never exists, so that no call begins while its slot migrates (`keys_of`)
--   ARGV[1]  worker: a text that names the calling process, new for each process
--   ARGV[2]  seq: number of the (first) call, which grows from call to call of a worker. A call whose
--            number is not above the last one done is not done again, so a worker may repeat what it
--            does not know to have arrived; one that leaves out a number is refused (GAP).
--   ARGV[3]  and on: what each script says; for those in `calls`, see `calls.lua`
--   returns  {now, waiting, leased, leased by others, ready_at, links, orphans, changes, tier, rank,
--            result...}: the server's Unix time in seconds, counts, when a page can leave (0: now; inf:
--            that takes an event); messages of workers that are gone, a number that grows with each
--            change of the counts, and where the first page of the order stands ('': none is ready).
--            The last four where a crawl has one shard: 0 and ''. Messages count as leased by others
--
-- Keys, all under P; <page> and <site> are numbers from 0 in order of discovery
--   :config          hash    what the crawl was begun with: rules of the ordering, delays, budgets;
--                            state (paused), run_id of the server
--   :rules           string  the same as msgpack, as it was when the crawl began
--   :counts          string  the numbers of COUNTS, a double each
--   :i:<bucket>      string  identities: 10 bytes of hash and the page, >I4; see "Identities"
--   :p:<page / 24>   string  records of pages, packed as PAGE
--   :u:<page / 16>   string  URLs of pages that wait or are leased: page % 16 as B, length as >I3,
--                            and "h" (http) or "s" (https) and what follows the host, or "u" and
--                            the whole URL
--   :given           hash    page -> first key that its caller gave, until a visit shows the page
--   :requests        hash    page -> its requests that wait, msgpack of {{priority, number, request,
--                            own priority if that is another}}
--   :hosts           hash    host -> site; here and in the next two, ' ' is no name (`open.lua`)
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
--   :shards          hash    of shard 0, where there are several: how sites are spread (`shards.py`)
--   :numbers         hash    "<shard> <run id>" -> messages sent to a shard since the server started
--   :outbox:<worker> hash    "<shard> <run id> <number>" -> message that the worker is to deliver, as
--                            msgpack of the arguments of `deliver.lua`; no worker: that of one that is gone
--   :inbox:<sender>  bitmap  numbers of the messages that were taken in; a sender is "<shard> <run id>"
--
-- A tier is 2 x priority + (hot: 1). Pages leave by larger tier, larger key, smaller number; sites
-- likewise by their first page, or by larger number of waiting pages in place of the key.
--
-- A script reads each record once, changes it in memory, and writes it in `finish`.

local P, worker, seq = KEYS[1], ARGV[1], tonumber(ARGV[2])
local call, floor, max, min, huge = redis.call, math.floor, math.max, math.min, math.huge
local pack, unpack_struct, format = struct.pack, struct.unpack, string.format

local UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
local OBSERVED, UNFILTERED, REPEATED, HAS_REQUESTS, BLAMED = 1, 2, 4, 8, 16
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

local AT_ONCE = 2000 -- arguments of a command at most, as Lua's stack is small

-- Call a command for all of many arguments, some at a time, each time behind the same first ones.
local function call_in_parts(arguments, ...)
  local n_first = select('#', ...)
  if #arguments <= AT_ONCE then
    if n_first == 1 then
      call(..., unpack(arguments))
    else
      local command, key = ...
      call(command, key, unpack(arguments))
    end
    return
  end
  for from = 1, #arguments, AT_ONCE do
    local all = { ... }
    for at = from, min(from + AT_ONCE - 1, #arguments) do
      all[#all + 1] = arguments[at]
    end
    call(unpack(all))
  end
end

-- The values that a command has for many names, some at a time.
local function values_of(names, ...)
  local n_first = select('#', ...)
  if #names <= AT_ONCE then
    if n_first == 1 then
      return call(..., unpack(names))
    end
    local command, key = ...
    return call(command, key, unpack(names))
  end
  local found = {}
  for from = 1, #names, AT_ONCE do
    local all = { ... }
    for at = from, min(from + AT_ONCE - 1, #names) do
      all[#all + 1] = names[at]
    end
    for at, value in ipairs(call(unpack(all))) do
      found[from + at - 1] = value
    end
  end
  return found
end

-- Config and counts

-- pages: known; keyed: those that have a key; visits: observed once each; waiting: requests that
-- wait; leased: leases; links: pages that came to wait as plain links; initial: key of pages that
-- have none yet; parent: key of the page visited last; number: requests numbered; rest_until: no page leaves
-- before; max_delay: the longest delay of a site in seconds; taken_over: leases of dead workers;
-- recorded: entries of the stream; outgoing: messages not delivered yet, as far as is known; changes:
-- grows whenever one of the others changes. `counts.py` has them too.
local COUNTS = {
  'pages', 'keyed', 'visits', 'waiting', 'leased', 'links', 'initial', 'parent', 'number',
  'rest_until', 'max_delay', 'ready', 'taken_over', 'dead', 'recorded', 'outgoing', 'changes',
}
local COUNTS_FORMAT = '>' .. ('d'):rep(#COUNTS)
local config, counts, counts_before = {}, {}, nil
do
  local stored = call('MGET', P .. ':rules', P .. ':counts')
  if stored[1] then
    config, counts_before = cmsgpack.unpack(stored[1]), stored[2]
    local values = { unpack_struct(COUNTS_FORMAT, counts_before) }
    for at = 1, #COUNTS do
      counts[COUNTS[at]] = values[at]
    end
  end
end
local n_pages_before = counts.pages

local function packed_counts()
  local values = {}
  for at = 1, #COUNTS do
    values[at] = counts[COUNTS[at]]
  end
  return pack(COUNTS_FORMAT, unpack(values))
end

local function save_counts()
  if packed_counts() ~= counts_before then
    counts.changes = counts.changes + 1
    call('SET', P .. ':counts', packed_counts())
  end
end

-- Strings that are written whole, all at once.

local written = {}

local function write(key, value)
  written[#written + 1] = key
  written[#written + 1] = value
end

-- Pages

local PAGE = '>dI4i4I2BBB' -- key, site, tier, depth, state, leases, flags
local PAGE_SIZE, PAGES = 21, 24 -- a block of so many takes 512 bytes with what Redis adds
local pages = {}

local function read_page(id, block, at)
  local key, site, tier, depth, state, leases, flags = unpack_struct(PAGE, block, at)
  local page = {
    key = key, site = site, tier = tier, depth = depth, state = state, leases = leases,
    flags = flags, dirty = false,
  }
  pages[id] = page
  return page
end

local function page_of(id)
  local page = pages[id]
  if page == nil then
    local from = id % PAGES * PAGE_SIZE
    local name = P .. ':p:' .. floor(id / PAGES)
    page = read_page(id, call('GETRANGE', name, from, from + PAGE_SIZE - 1), 1)
  end
  return page
end

-- Read many pages at once.
local function read_pages(ids)
  local prefix, names, place_of, missing = P .. ':p:', {}, {}, {}
  for at = 1, #ids do
    local id = ids[at]
    if pages[id] == nil then
      missing[#missing + 1] = id
      local block = floor(id / PAGES)
      if place_of[block] == nil then
        names[#names + 1] = prefix .. block
        place_of[block] = #names
      end
    end
  end
  if #names > 0 then
    local blocks = values_of(names, 'MGET')
    for at = 1, #missing do
      local id = missing[at]
      read_page(id, blocks[place_of[floor(id / PAGES)]], id % PAGES * PAGE_SIZE + 1)
    end
  end
end

local function record_of_page(page)
  return pack(PAGE, page.key, page.site, page.tier, page.depth, page.state, page.leases, page.flags)
end

local function save_pages()
  for id, page in pairs(pages) do
    if page.dirty and id < n_pages_before then
      call('SETRANGE', P .. ':p:' .. floor(id / PAGES), id % PAGES * PAGE_SIZE, record_of_page(page))
    end
  end
  -- New pages have numbers in a row; a string begins at its full length, so that it never grows.
  local id = n_pages_before
  while id < counts.pages do
    local key, first, records = P .. ':p:' .. floor(id / PAGES), id % PAGES, {}
    repeat
      records[#records + 1] = record_of_page(pages[id])
      id = id + 1
    until id == counts.pages or id % PAGES == 0
    local packed = table.concat(records)
    if first == 0 then
      write(key, packed .. ('\0'):rep((PAGES - #records) * PAGE_SIZE))
    else
      call('SETRANGE', key, first * PAGE_SIZE, packed)
    end
  end
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

-- Sites

-- leases, limit (0: as for others), waiting, known, tiers other than 0, first page and place,
-- visited (pages of this visit), refusals, unstarted; then tier of its place, own delay and
-- Crawl-delay (-1: none), times (ready, started, ended, paused until, refused), and the key of the
-- first page when the site was placed.
local SITE = '>I4I4I4I4I4I4BI4I4I4ddddddddd'
local sites = {}

local function read_site(id, record)
  local leased, limit, waiting, known, tiers, first, place, visited, refusals, unstarted,
    place_tier, own_delay, crawl_delay, ready_at, started_at, ended_at, paused_until, refused_at,
    first_key, at = unpack_struct(SITE, record)
  local site = {
    id = id, leased = leased, limit = limit, waiting = waiting, known = known, tiers = tiers,
    first = first, place = place, visited = visited, refusals = refusals, unstarted = unstarted,
    place_tier = place_tier, own_delay = own_delay, crawl_delay = crawl_delay,
    ready_at = ready_at, started_at = started_at, ended_at = ended_at,
    paused_until = paused_until, refused_at = refused_at, first_key = first_key,
    host = record:sub(at), dirty = false, to_place = false,
    -- Its first waiting page, where that is known without a look: none, or that by which it stands.
    knows_head = place == READY or waiting == 0, head = nil, head_tier = 0, head_key = first_key,
    delayed_until = place == DELAYED and ready_at or nil,
  }
  if place == READY then
    site.head = first
    site.head_tier = place_tier >= ON_VISIT / 2 and place_tier - ON_VISIT or place_tier
  end
  sites[id] = site
  return site
end

-- A site; whoever changes it says so by `touch` or `dirty`.
local function site_of(id)
  return sites[id] or read_site(id, call('HGET', P .. ':sites', id))
end

-- Read many sites at once.
local function read_sites(ids)
  local names, is_named = {}, {}
  for at = 1, #ids do
    local id = ids[at]
    if sites[id] == nil and not is_named[id] then
      is_named[id] = true
      names[#names + 1] = id
    end
  end
  if #names > 0 then
    for at, record in ipairs(values_of(names, 'HMGET', P .. ':sites')) do
      read_site(names[at], record)
    end
  end
end

local function save_sites()
  local records = {}
  for id, site in pairs(sites) do
    if site.dirty then
      records[#records + 1] = id
      records[#records + 1] = pack(SITE, site.leased, site.limit, site.waiting, site.known,
        site.tiers, site.first, site.place, site.visited, site.refusals, site.unstarted,
        site.place_tier, site.own_delay, site.crawl_delay, site.ready_at, site.started_at,
        site.ended_at, site.paused_until, site.refused_at, site.first_key) .. site.host
    end
  end
  if #records > 0 then
    call_in_parts(records, 'HSET', P .. ':sites')
  end
end

local site_ids, new_hosts, n_hosts = {}, {}, nil

-- Read the sites of many hosts, those that there are.
local function read_hosts(hosts)
  local names, found = {}, {}
  for at = 1, #hosts do
    if site_ids[hosts[at]] == nil then
      names[#names + 1] = hosts[at]
    end
  end
  if #names == 0 then
    return
  end
  for at, id in ipairs(values_of(names, 'HMGET', P .. ':hosts')) do
    site_ids[names[at]] = id and tonumber(id)
    if id then
      found[#found + 1] = tonumber(id)
    end
  end
  read_sites(found)
end

-- The site of a host, which is new if the host has not been seen.
local function site_of_host(host)
  local id = site_ids[host]
  if id == nil then
    id = tonumber(call('HGET', P .. ':hosts', host)) or false
    site_ids[host] = id
  end
  if id then
    return site_of(id)
  end
  n_hosts = n_hosts or call('HLEN', P .. ':hosts') - 1
  id = n_hosts
  n_hosts = n_hosts + 1
  site_ids[host] = id
  new_hosts[#new_hosts + 1] = host
  new_hosts[#new_hosts + 1] = id
  local delay, limit = -1, 0
  local slot = config.n_slots > 0 and call('HGET', P .. ':slots', host)
  if slot then
    local own_delay, own_limit = slot:match('(%S+) (%S+)')
    delay, limit = tonumber(own_delay), max(tonumber(own_limit), 0)
  end
  sites[id] = {
    id = id, host = host, leased = 0, limit = limit, waiting = 0, known = 0, tiers = 0, first = 0,
    place = NOWHERE, visited = 0, refusals = 0, unstarted = 0, place_tier = 0, own_delay = delay,
    crawl_delay = -1, ready_at = -huge, started_at = -huge, ended_at = -huge,
    paused_until = -huge, refused_at = -huge, first_key = 0,
    dirty = true, to_place = false, knows_head = true, head = nil, head_tier = 0, head_key = 0,
  }
  return sites[id]
end

local function save_hosts()
  if #new_hosts > 0 then
    call_in_parts(new_hosts, 'HSET', P .. ':hosts')
  end
end

local function limit_of(site)
  return site.limit > 0 and site.limit or config.limit
end

-- Seconds between a fetch and the next start on its site; `for_fetch`: what the fetch asks for.
local function delay_of(site, for_fetch)
  local delay = site.own_delay
  if delay < 0 then
    delay = config.delay
    if config.small_site_delay >= 0 and site.known < config.small_site_pages then
      delay = config.small_site_delay
    end
  end
  delay = max(delay, site.crawl_delay, for_fetch, 0)
  counts.max_delay = max(counts.max_delay, delay)
  return delay
end
