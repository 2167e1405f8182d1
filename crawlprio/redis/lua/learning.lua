-- How pages come to be known, and what a visit does to their keys. It follows `common.lua` in the
-- scripts that learn. The rules are those of `crawlprio.redis.rules`, with the same numbers.
--
-- Numbers of `config` that it reads
--   first_rule     key of a new page: 0 `new_key`; 1 drawn at random; 2 number of the visit that
--                  shows it; 3 by its distance from the seeds; 4 given by the caller; 5 minus the time at
--                  which it was shown. With several shards 2 is the time, as their visits count apart
--   evidence_rule  0 links say nothing; 1 each adds 1 to its target's key; 2 a page's key is split
--                  over its links and gone; 3 a target's key is at least the number that is given;
--                  4 a page passes `factor` times its key on, in equal shares, and keeps it; 5 a
--                  target's key is at least minus its distance by this link
--   factor, link   of rule 4; how much of a page's distance its links inherit, and their length
--   new_key, seed_key, random_seed; per_site, per_domain, per_pattern: pages known at most (0: any)

local CONSTANT, RANDOM, STEP, DISTANCE, GIVEN, AGE = 0, 1, 2, 3, 4, 5
local COUNT_BACKLINKS, SPREAD, RAISE, PASS, SHORTEN = 1, 2, 3, 4, 5
local NO_PAGE = -1

-- 64-bit numbers are four limbs of 16 bits, least first.

local function limbs(number)
  return { number % 65536, floor(number / 65536) % 65536, floor(number / 2 ^ 32) % 65536,
    floor(number / 2 ^ 48) % 65536 }
end

local function times(a, b)
  local result, carry = {}, 0
  for at = 1, 4 do
    for other = 1, at do
      carry = carry + a[other] * b[at - other + 1]
    end
    result[at] = carry % 65536
    carry = floor(carry / 65536)
  end
  return result
end

local function plus(a, b)
  local result, carry = {}, 0
  for at = 1, 4 do
    carry = carry + a[at] + b[at]
    result[at] = carry % 65536
    carry = floor(carry / 65536)
  end
  return result
end

-- x xor (x >> shift), for a shift from 17 to 31.
local function mixed(x, shift)
  local low = shift - 16
  local result = {}
  for at = 1, 4 do
    local from, above = x[at + 1] or 0, x[at + 2] or 0
    local shifted = floor(from / 2 ^ low) + (above * 2 ^ (16 - low)) % 65536
    result[at] = bit.bxor(x[at], shifted)
  end
  return result
end

local GOLDEN = { 0x7C15, 0x7F4A, 0x79B9, 0x9E37 }
local FIRST = { 0xE5B9, 0x1CE4, 0x476D, 0xBF58 }
local SECOND = { 0x11EB, 0x1331, 0x49BB, 0x94D0 }

-- Number `index` of the SplitMix64 sequence that starts at `seed`, in [0, 1).
local function uniform(seed, index)
  local x = plus(limbs(seed), times(limbs(index + 1), GOLDEN))
  x = times(mixed(x, 30), FIRST)
  x = times(mixed(x, 27), SECOND)
  x = mixed(x, 31)
  return (x[4] * 2 ^ 37 + x[3] * 2 ^ 21 + x[2] * 2 ^ 5 + floor(x[1] / 2 ^ 11)) * 2 ^ -53
end

-- Pages known by registered domain and by pattern of URLs, where budgets count them.
local function tally(key, limit)
  return { key = key, limit = limit, of = {}, changed = {} }
end

local by_domain = tally(P .. ':domains', config.per_domain)
local by_pattern = tally(P .. ':patterns', config.per_pattern)

local function is_full(tallied, name)
  if tallied.limit == 0 or name == '' then
    return false
  end
  local count = tallied.of[name]
  if count == nil then
    count = tonumber(call('HGET', tallied.key, name) or 0)
    tallied.of[name] = count
  end
  return count >= tallied.limit
end

local function count_page(tallied, name)
  if tallied.limit > 0 and name ~= '' then
    tallied.of[name] = (tallied.of[name] or tonumber(call('HGET', tallied.key, name) or 0)) + 1
    tallied.changed[name] = true
  end
end

local function save_tally(tallied)
  local values = {}
  for name in pairs(tallied.changed) do
    values[#values + 1] = name
    values[#values + 1] = tallied.of[name]
  end
  if #values > 0 then
    call_in_parts(values, 'HSET', tallied.key)
  end
end

-- Read what budgets count of the new pages among links.
local function read_tally(tallied, links, name_of)
  if tallied.limit == 0 then
    return
  end
  local names, ids, host_numbers = {}, links.ids, links.host_numbers
  for link = 1, links.n do
    if not ids[link] and host_numbers[link] > 0 then
      local name = name_of(links, link)
      if name ~= '' and tallied.of[name] == nil then
        tallied.of[name] = 0
        names[#names + 1] = name
      end
    end
  end
  if #names > 0 then
    for at, count in ipairs(values_of(names, 'HMGET', tallied.key)) do
      tallied.of[names[at]] = tonumber(count or 0)
    end
  end
end

-- Which budget has no room for one more page: its name, or nil.
local function refusal(site, domain, pattern)
  if config.per_site > 0 and site.known >= config.per_site then
    return 'site-budget'
  elseif is_full(by_domain, domain) then
    return 'domain-budget'
  elseif is_full(by_pattern, pattern) then
    return 'pattern-budget'
  end
end

-- Give a page that is not known yet the next number.
local function add_page(hash, url, site, domain, pattern, depth, number)
  local id = counts.pages
  counts.pages = id + 1
  keep_identity(hash, id)
  site.known, site.dirty = site.known + 1, true
  count_page(by_domain, domain)
  count_page(by_pattern, pattern)
  pages[id] = {
    key = counts.initial, given = number, site = site.id, tier = 0,
    depth = min(depth, 32767), state = UNKNOWN, leases = 0, flags = 0, dirty = true,
  }
  add_url(id, site.host, url)
  return id
end

-- Links as a caller gives them from ARGV[at] on: the number of hosts, each host and its registered
-- domain; the number of links; one text with hash of its identity, number of its host from 1,
-- pattern, and the number that the rules ask for, of each, packed as LINK; URLs of those with a
-- host, which come first; the number of links whose identity is not their URL, and of each its place
-- from 1 and its identity. A link whose host is 0 is not followed: it is evidence where its target
-- is known.
local LINK, LINK_SIZE, NO_PATTERN = '>c10I4c8d', 30, ('\0'):rep(8)

-- They are kept field by field, which takes less of Lua than link by link: `ids` and `added` are set
-- by `find_or_add`: the page of each link, or false; and the places of those that showed a new page.
local function read_links(at)
  local n_hosts = tonumber(ARGV[at])
  local n_links, packed = tonumber(ARGV[at + 2 * n_hosts + 1]), ARGV[at + 2 * n_hosts + 2]
  local links = {
    n = n_links, n_urls = 0, hashes = {}, host_numbers = {}, patterns = {}, numbers = {},
    hosts_at = at - 1, urls_at = at + 2 * n_hosts + 2, ids = {}, added = {}, identities = {},
  }
  local hashes, hosts, patterns, numbers = links.hashes, links.host_numbers, links.patterns, links.numbers
  local n_urls = 0
  for link = 1, n_links do
    local host
    hashes[link], host, patterns[link], numbers[link] =
      unpack_struct(LINK, packed, (link - 1) * LINK_SIZE + 1)
    hosts[link] = host
    n_urls = n_urls + (host > 0 and 1 or 0)
  end
  at = links.urls_at + n_urls + 1
  for own = 1, tonumber(ARGV[at]) do
    links.identities[tonumber(ARGV[at + 2 * own - 1])] = ARGV[at + 2 * own]
  end
  links.after = at + 2 * tonumber(ARGV[at]) + 1
  return links
end

local function url_of_link(links, link)
  return ARGV[links.urls_at + link]
end

-- Host and registered domain of a link that is followed.
local function host_of_link(links, link)
  local at = links.hosts_at + 2 * links.host_numbers[link]
  return ARGV[at], ARGV[at + 1]
end

local function domain_of_link(links, link)
  return ARGV[links.hosts_at + 2 * links.host_numbers[link] + 1]
end

local function pattern_of_link(links, link)
  local pattern = links.patterns[link]
  return pattern == NO_PATTERN and '' or pattern
end

-- The pages that links mean, new ones with the next numbers. Returns how many links each budget
-- refused, and which; none where there is `room` for all.
local function find_or_add(links, depth, room)
  local hosts, is_named, refused, without_room = {}, {}, {}, {}
  local ids, host_numbers, hashes, added = links.ids, links.host_numbers, links.hashes, links.added
  find_pages(hashes, ids)
  for link = 1, links.n do
    local number = host_numbers[link]
    if not ids[link] and number > 0 and not is_named[number] then
      is_named[number] = true
      hosts[#hosts + 1] = host_of_link(links, link)
    end
  end
  if #hosts == 0 then
    return refused, without_room
  end
  read_hosts(hosts)
  read_tally(by_domain, links, domain_of_link)
  read_tally(by_pattern, links, pattern_of_link)
  for link = 1, links.n do
    local hash = hashes[link]
    if not ids[link] then
      -- A link before this one may have had the same target.
      ids[link] = new_pages_of[hash] or false
    end
    if not ids[link] and host_numbers[link] > 0 then
      local host, domain = host_of_link(links, link)
      local pattern = pattern_of_link(links, link)
      local site = site_of_host(host)
      local reason = not room and refusal(site, domain, pattern)
      if reason then
        without_room[#without_room + 1] = link
        refused[reason] = (refused[reason] or 0) + 1
      else
        local id = add_page(hash, url_of_link(links, link), site, domain, pattern, depth,
          links.numbers[link])
        ids[link] = id
        added[#added + 1] = link
      end
    end
  end
  return refused, without_room
end

-- Give first keys to the pages that have none.
--   changed     takes the keys
--   parent_key  key of the page that shows them, as it was before
--   shown       rules 2, 3 and 5: the key
local function give_first_keys(changed, is_seed, parent_key, shown)
  local rule = config.first_rule
  for id = counts.keyed, counts.pages - 1 do
    local new = page_of(id)
    if rule == CONSTANT then
      new.first_key = is_seed and config.seed_key or config.new_key
    elseif rule == RANDOM then
      local number = uniform(config.random_seed, id * config.shards + config.shard)
      new.first_key = parent_key + math.log(1 - number)
    elseif rule == AGE then
      new.first_key = is_seed and -server_now or shown
    elseif rule == STEP or rule == DISTANCE then
      new.first_key = is_seed and 0 or shown
    else
      new.first_key = new.given or tonumber(call('HGET', P .. ':given', id))
      if not new.given then
        call('HDEL', P .. ':given', id)
      end
    end
    changed[id] = new.first_key
  end
  counts.keyed = counts.pages
end

-- Have pages stand by their changed keys; new ones come to wait.
local function put_in_place(changed)
  local their_sites = {}
  for id in pairs(changed) do
    local one = page_of(id)
    if one.state == WAITING or one.first_key then
      their_sites[#their_sites + 1] = one.site
    end
  end
  read_sites(their_sites)
  for id, key in pairs(changed) do
    local one = page_of(id)
    if one.state == WAITING then
      rekey(id, one, key)
    elseif one.state == UNKNOWN and one.first_key then
      push(id, one, one.tier, key)
    elseif one.key ~= key then
      one.key, one.dirty = key, true
    end
  end
end

-- Give keys to the pages that have none, and let links change those of their targets.
--   visited  the page fetched, or NO_PAGE: the targets are seeds
--   targets  pages of its links, distinct, without the page itself
--   numbers  the number of each that the rules ask for
--   n_more   targets in other shards
--   returns  what a message tells those shards: the key of the page before, the first key of what it
--            shows, and its evidence, a number that the rules say what to do with; nil: none
local function learn(visited, targets, numbers, n_more)
  local rule, is_seed = config.first_rule, visited == NO_PAGE
  local page = not is_seed and page_of(visited) or nil
  local again = page ~= nil and has_flag(page, OBSERVED)
  local before = page and page.key or 0
  if page and visited >= counts.keyed then
    before = config.initial_key
  end
  local changed, n_targets, told = {}, #targets + (n_more or 0), nil

  -- Minus the distance of the links of a page with this key.
  local function distant(key)
    return -(config.factor * -key + math.log(max(n_targets, 1)) + config.link)
  end

  local shown = 0
  if rule == STEP then
    shown = config.shards > 1 and server_now or counts.visits + 1
  elseif rule == DISTANCE then
    shown = distant(before)
  elseif rule == AGE then
    shown = -server_now
  end
  give_first_keys(changed, is_seed, is_seed and counts.parent or before, shown)
  if page and not again then
    read_pages(targets)
    set_flag(page, OBSERVED, true)
    counts.visits = counts.visits + 1
    local evidence, share = config.evidence_rule, 0
    local own_key = changed[visited] or page.key
    if evidence == COUNT_BACKLINKS then
      share = 1
    elseif evidence == SPREAD and n_targets > 0 then
      share = own_key / n_targets
    elseif evidence == PASS and n_targets > 0 then
      share = config.factor * own_key / n_targets
    end
    told = share
    if share ~= 0 then
      if evidence == SPREAD then
        -- Where it waits already, to be fetched again, it stays where it stands.
        if changed[visited] then
          changed[visited] = 0
        else
          page.key, page.dirty = 0, true
        end
      end
      for at = 1, #targets do
        local id = targets[at]
        changed[id] = (changed[id] or page_of(id).key) + share
      end
    elseif evidence == RAISE or evidence == SHORTEN then
      local key = evidence == SHORTEN and distant(own_key)
      told = key or 0
      for at = 1, #targets do
        local id = targets[at]
        changed[id] = max(changed[id] or page_of(id).key, key or numbers[at])
      end
    end
    if rule == RANDOM then
      counts.parent, counts.initial = own_key, own_key - 1
    end
  end
  put_in_place(changed)
  return before, shown, told
end

-- Likewise for the links of a page of another shard, which `learn` there told of.
--   targets    pages of its links, distinct
--   numbers    the number of each that the rules ask for
--   n_counted  targets that were counted there: the first ones. Others are links that are not
--              followed, which have no share in what is divided.
--   told       its evidence; nil: none
local function learn_from_message(targets, numbers, n_counted, before, shown, told)
  local changed, evidence = {}, config.evidence_rule
  give_first_keys(changed, false, before, shown)
  if told then
    read_pages(targets)
    for at = 1, #targets do
      local id = targets[at]
      if evidence == RAISE or evidence == SHORTEN then
        local key = evidence == SHORTEN and told or numbers[at]
        changed[id] = max(changed[id] or page_of(id).key, key)
      elseif told ~= 0 and (at <= n_counted or evidence == COUNT_BACKLINKS) then
        changed[id] = (changed[id] or page_of(id).key) + told
      end
    end
  end
  put_in_place(changed)
end

-- What the stream says of new pages, as fields and values; an entry of it may have more.
--   n  number of the entry, from 1; c  the crawl; e  seeds among the new pages; p  page visited;
--   t  pages that its links mean, in their order, -1: none; v  the visit, as the worker wrote it;
--   o  {position from 0, URL} of links for which a budget had no room
--   b  message that the entry takes in: "<shard> <run id> <number>"; m  messages of the visit: {shard, b}
--   f  number of the first new page; u  URLs of the new pages; k  {position from 0, identity} where
--   that is not the URL; s  host of each; d  their depth
local function page_fields(first, urls, hosts, depth, identities)
  return { 'f', first, 'u', cjson.encode(urls), 's', cjson.encode(hosts), 'd', depth,
    'k', #identities > 0 and cjson.encode(identities) or '[]' }
end

local function new_pages(links, depth)
  local urls, identities, hosts = {}, {}, {}
  for at, link in ipairs(links.added) do
    urls[at], hosts[at] = url_of_link(links, link), (host_of_link(links, link))
    if links.identities[link] then
      identities[#identities + 1] = { at - 1, links.identities[link] }
    end
  end
  if #urls == 0 then
    return {}
  end
  return page_fields(links.ids[links.added[1]], urls, hosts, depth, identities)
end

-- The links of a visit or a message as JSON: page numbers, -1 without one; and [place, URL] of each
-- that no budget had room for.
local function links_as_json(links, without_room)
  local ids, refused = {}, {}
  for link = 1, links.n do
    ids[link] = links.ids[link] or -1
  end
  for at, link in ipairs(without_room) do
    refused[at] = { link - 1, url_of_link(links, link) }
  end
  return #ids > 0 and cjson.encode(ids) or '[]', #refused > 0 and cjson.encode(refused) or '[]'
end

-- A table as a list: each key, then its value.
local function as_pairs(values)
  local pairs_of = {}
  for key, value in pairs(values) do
    pairs_of[#pairs_of + 1] = key
    pairs_of[#pairs_of + 1] = value
  end
  return pairs_of
end

local function record(fields)
  if config.records == 1 and #fields > 0 then
    counts.recorded = counts.recorded + 1
    call('XADD', P .. ':visits', '*', 'n', counts.recorded, 'c', config.crawl_id, unpack(fields))
  end
end
