-- The prelude of every script: keys, records and the calling convention.
--
-- Calling convention
--   KEYS[1]  the prefix P of a shard's keys, including the hash tag: crawlprio:{<crawl>:<shard>}
--   KEYS[2]  a key that never exists; it makes Redis refuse calls to a migrating slot (`script_keys`)
--   ARGV[1]  worker: identifier of the calling process, unique per run
--   ARGV[2]  seq: number of the (first) call; a worker numbers its calls without gaps. A call whose
--            number was done before is not done again, so a worker may retry a call whose answer was
--            lost. A call that skips a number is refused (GAP).
--   ARGV[3]  in `calls` and `heartbeat`, what the worker knows of the time; see `keep_time`
--   ARGV[3]... arguments of other scripts
--   returns  {now, waiting, leased, leased by others, ready_at, links, pages, sites, orphans, changes,
--            tier, rank, offset, result...}
--              now               the time: the server's Unix time in seconds, plus offset
--              waiting, leased   counts; "leased by others" includes undelivered messages
--              ready_at          when a page can leave; 0: now; inf: not without a further call
--              links, pages      see COUNTS
--              sites             known sites
--              orphans           messages of dead workers
--              changes           grows with every change of the counts
--              tier, rank        of the page that leaves next; '': none is ready
--              offset            see COUNTS
--            Changes, tier and rank are 0 and '' unless the crawl has several shards.
--
-- Keys under P; <page> and <site> are numbered from 0 in order of discovery
--   :config          hash    settings that the crawl was begun with: rules of the ordering, delays,
--                            budgets; and state (paused, draining) and run_id of the server
--   :rules           string  those settings as msgpack, for one fast read per script
--   :counts          string  the values of COUNTS, one double each
--   :i:<bucket>      string  identities: 10 bytes of hash and the page as >I4; see "Identities"
--   :p:<page / 24>   string  page records, packed as PAGE
--   :u:<page / 16>   string  URLs of waiting and leased pages: page % 16 as B, length as >I3, then "h"
--                            (http) or "s" (https) and the part after the host, or "u" and the URL
--   :given           hash    page -> first key provided by its caller, until a visit shows the page
--   :requests        hash    page -> its waiting requests, as msgpack of {{priority, number, request,
--                            own priority if different}}
--   :hosts           hash    host -> site; in this and the next two, ' ' is a dummy (see `open.lua`)
--   :sites           hash    site -> its record, packed as SITE, followed by its host
--   :slots           hash    host -> "delay limit" of sites with settings of their own; -1: none
--   :domains         hash    registered domain -> its tally, packed as TALLY, if a budget counts it
--   :patterns        hash    hash of a URL pattern -> its tally, if a budget counts it
--   :claims          hash    page -> hash of its pattern, of claims that have one; see "Budgets"
--   :silent          hash    site -> registered domain of the page whose link introduced it, until a
--                            page of the site has been fetched, if there is a maximum of sites
--   :w:<site>[:<tier>]  zset  waiting pages of a site, packed as >I4, by -key; default: tier 0
--   :t:<site>        zset    tiers other than 0 with waiting pages of a site, by -tier
--   :ready:<tier>    zset    first page of each ready site, packed as >I4, by -(key of the site)
--   :tiers           zset    tiers that may have ready sites, by -tier
--   :delayed         zset    sites inside their delay, by the time at which it ends
--   :flights         hash    number of a registered domain -> its leases that hold their sites
--   :held            zset    domains with sites that are held back, in order; see `shares.lua`
--   :held:<domain>   list    those sites, in order
--   :shares          string  what `shares.lua` knows, as msgpack
--   :workers         zset    workers, by the time at which their lease expires
--   :worker:<worker> hash    seq: number of the last call done; name; since: Unix time; fetches: how many
--                            it makes at once
--   :leases:<worker> hash    lease -> msgpack of {page or -1, site, holds its site, request, priority
--                            of the request, since}
--   :robots          hash    host and port -> msgpack of {time at which the file was read, time until
--                            which it is valid, worker that is to read it, until when, the file}
--   :robots_sizes    zset    the names in :robots, by their size in bytes
--   :attempts        hash    page -> number of workers that died holding it
--   :dead            list    dead letters, oldest first: JSON of page, url, reason, request, at
--   :visits          stream  pages and visits in order; see `page_fields` in `learning.lua`
--   :elected         hash    the elected worker; see `elect.lua`
--   :seeds           hash    shard 0 only: host of a seed -> the private addresses that it opens,
--                            separated by spaces; written by the first worker that resolved it
--   :shards          hash    shard 0 of several only: how sites are mapped to shards (`shards.py`)
--   :numbers         hash    "<shard> <run id>" -> messages sent to that shard since the server started
--   :outbox:<worker> hash    "<shard> <run id> <number>" -> message for this worker to deliver, as
--                            msgpack of the arguments of `deliver.lua`; "parts <worker> <lease>" ->
--                            visit with parts to take; without a worker: orphans
--   :parts:<worker> <lease>  list  a visit of which not all links have been taken; see `parts.lua`
--   :inbox:<sender>  bitmap  numbers of received messages; <sender> is "<shard> <run id>"
--
-- A tier is 2 x priority + (1 if hot). Pages leave by larger tier, then larger key, then smaller
-- number. Sites rank by their first page; under `by_waiting_pages` their number of waiting pages
-- replaces its key.
--
-- A script reads each record at most once, changes it in memory and writes it in `finish`.

local P, worker, seq = KEYS[1], ARGV[1], tonumber(ARGV[2])
local call, floor, max, min, huge = redis.call, math.floor, math.max, math.min, math.huge
local pack, unpack_struct, format = struct.pack, struct.unpack, string.format

local UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
-- Flags of a page; a table, because Lua allows a function at most 60 upvalues.
local is = {
  observed = 1, unfiltered = 2, repeated = 4, with_requests = 8, with_attempts = 16, claim = 32,
}
local NOWHERE, READY, DELAYED = 0, 1, 2
local ON_VISIT = 2 ^ 40
local LOWEST, HIGHEST = -(2 ^ 30), 2 ^ 30 - 1

local ask_again_at = 0 -- earliest time for another question, set by a call that found no page

-- A number as text that converts back to the same number.
local function exact(number)
  return format('%.17g', number)
end

local MAX_ARGUMENTS = 2000 -- arguments per command, limited by the size of Lua's stack

-- Call a command with many arguments in chunks, repeating the leading arguments in each.
local function call_in_chunks(arguments, ...)
  local n_first = select('#', ...)
  if #arguments <= MAX_ARGUMENTS then
    if n_first == 1 then
      call(..., unpack(arguments))
    else
      local command, key = ...
      call(command, key, unpack(arguments))
    end
    return
  end
  for from = 1, #arguments, MAX_ARGUMENTS do
    local all = { ... }
    for at = from, min(from + MAX_ARGUMENTS - 1, #arguments) do
      all[#all + 1] = arguments[at]
    end
    call(unpack(all))
  end
end

-- Look up many names in chunks; return all values in order.
local function look_up(names, ...)
  local n_first = select('#', ...)
  if #names <= MAX_ARGUMENTS then
    if n_first == 1 then
      return call(..., unpack(names))
    end
    local command, key = ...
    return call(command, key, unpack(names))
  end
  local found = {}
  for from = 1, #names, MAX_ARGUMENTS do
    local all = { ... }
    for at = from, min(from + MAX_ARGUMENTS - 1, #names) do
      all[#all + 1] = names[at]
    end
    for at, value in ipairs(call(unpack(all))) do
      found[from + at - 1] = value
    end
  end
  return found
end

-- Config and counts

--   pages      known pages
--   keyed      pages that a visit has shown or that are seeds; these have a key
--   visits     visited pages
--   waiting    waiting requests
--   leased     leases
--   links      pages queued as plain links
--   initial    key of pages without one
--   parent     key of the page visited last
--   number     requests numbered so far
--   rest_until no page leaves before this time
--   max_delay  longest delay of a site, in seconds
--   ready      ready sites
--   taken_over leases taken over from dead workers
--   dead       dead letters
--   recorded   stream entries
--   outgoing   undelivered messages
--   fetched    pages got, those that redirected to another included
--   changes    grows whenever another count changes
--   robots     bytes in :robots
--   fetches    fetches that all workers make at once
--   held       sites that are held back, since their domain has its share of the fetches
--   offset     seconds added to the server's clock, so that time goes on evenly when it is set
-- `counts.py` has the same list.
local COUNTS = {
  'pages', 'keyed', 'visits', 'waiting', 'leased', 'links', 'initial', 'parent', 'number',
  'rest_until', 'max_delay', 'ready', 'taken_over', 'dead', 'recorded', 'outgoing', 'fetched',
  'changes', 'robots', 'fetches', 'held', 'offset',
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

-- The time, read once per script.
local now
do
  local time = call('TIME')
  now = time[1] + time[2] / 1e6 + (counts.offset or 0)
end

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

-- Strings to write with one MSET.

local written = {}

local function write(key, value)
  written[#written + 1] = key
  written[#written + 1] = value
end

-- Pages

local PAGE = '>dI4i4I2BBB' -- key, site, tier, depth, state, leases, flags
local PAGE_SIZE, PAGES = 21, 24 -- pages per block: 512 bytes with Redis's overhead
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

-- Read many pages in one round trip.
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
    local blocks = look_up(names, 'MGET')
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
  -- New pages have consecutive numbers. Blocks are created at full length, so they never grow.
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

-- leases, limit (0: default), waiting pages, known pages, claims among them, whether it is silent,
-- number of its registered domain (0: without pages), whether it is held back, tiers other than 0, first page and place, pages of this visit, refusals, leases not yet started;
-- then the tier of its place, own delay and Crawl-delay (-1: none), times (ready, started, ended,
-- paused until, refused), and the key of the first page when the site was placed.
local SITE = '>I4I4I4I4I4BI4BI4I4BI4I4I4ddddddddd'
local sites = {}

local function read_site(id, record)
  local leased, limit, waiting, known, claims, silent, domain, is_held, tiers, first, place, visited, refusals,
    unstarted, place_tier, own_delay, crawl_delay, ready_at, started_at, ended_at, paused_until,
    refused_at, first_key, at = unpack_struct(SITE, record)
  local site = {
    id = id, leased = leased, limit = limit, waiting = waiting, known = known, claims = claims,
    silent = silent, domain = domain, is_held = is_held, tiers = tiers, first = first, place = place, visited = visited,
    refusals = refusals, unstarted = unstarted, place_tier = place_tier, own_delay = own_delay, crawl_delay = crawl_delay,
    ready_at = ready_at, started_at = started_at, ended_at = ended_at,
    paused_until = paused_until, refused_at = refused_at, first_key = first_key,
    host = record:sub(at), dirty = false, to_place = false,
    -- The first waiting page is known if there is none, or if the site is ready.
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

-- Return a site. After a change set `dirty`, or call `touch` if its place may change.
local function site_of(id)
  return sites[id] or read_site(id, call('HGET', P .. ':sites', id))
end

-- Read many sites in one round trip.
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
    for at, record in ipairs(look_up(names, 'HMGET', P .. ':sites')) do
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
        site.claims, site.silent, site.domain, site.is_held, site.tiers, site.first, site.place, site.visited,
        site.refusals, site.unstarted, site.place_tier, site.own_delay, site.crawl_delay, site.ready_at,
        site.started_at, site.ended_at, site.paused_until, site.refused_at, site.first_key) .. site.host
    end
  end
  if #records > 0 then
    call_in_chunks(records, 'HSET', P .. ':sites')
  end
end

local site_ids, new_hosts, n_hosts = {}, {}, nil

local function n_known_hosts()
  n_hosts = n_hosts or call('HLEN', P .. ':hosts') - 1
  return n_hosts
end

-- Read the sites of many hosts, skipping unknown hosts.
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
  for at, id in ipairs(look_up(names, 'HMGET', P .. ':hosts')) do
    site_ids[names[at]] = id and tonumber(id)
    if id then
      found[#found + 1] = tonumber(id)
    end
  end
  read_sites(found)
end

-- Add a site for a new host.
local function add_site(host)
  local id = n_known_hosts()
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
    id = id, host = host, leased = 0, limit = limit, waiting = 0, known = 0, claims = 0,
    silent = 0, domain = 0, is_held = 0, tiers = 0, first = 0, place = NOWHERE, visited = 0, refusals = 0, unstarted = 0, place_tier = 0, own_delay = delay,
    crawl_delay = -1, ready_at = -huge, started_at = -huge, ended_at = -huge,
    paused_until = -huge, refused_at = -huge, first_key = 0,
    dirty = true, to_place = false, knows_head = true, head = nil, head_tier = 0, head_key = 0,
  }
  return sites[id]
end

-- Return the site of a host, which is added if it is new; `domain`: its registered domain, if known. Nobody
-- outside can choose the number of a domain.
local function site_of_host(host, domain)
  local id = site_ids[host]
  if id == nil then
    id = tonumber(call('HGET', P .. ':hosts', host)) or false
    site_ids[host] = id
  end
  local site = id and site_of(id) or add_site(host)
  if domain and site.domain == 0 then
    local hash = redis.sha1hex(config.crawl_id .. domain)
    site.domain, site.dirty = max(tonumber(hash:sub(1, 8), 16), 1), true
  end
  return site
end

local function save_hosts()
  if #new_hosts > 0 then
    call_in_chunks(new_hosts, 'HSET', P .. ':hosts')
  end
end

local function limit_of(site)
  return site.limit > 0 and site.limit or config.limit
end

-- The delay of a site in seconds; `for_fetch`: the delay that the last fetch calls for.
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
