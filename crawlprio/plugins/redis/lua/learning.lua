-- Discovering pages and updating keys after a visit. Follows `budgets.lua` in the scripts that learn.
-- The rules are numbered as in `crawlprio.plugins.redis.rules`.
--
-- Settings in `config`
--   first_rule     first key of a page: 0 `new_key`; 1 random; 2 number of the visit that shows it (time,
--                  with several shards, which count visits separately); 3 minus its distance from the
--                  seeds; 4 provided by the caller; 5 minus the time of discovery
--   evidence_rule  effect of a visit on its targets: 0 none; 1 each key grows by 1; 2 the visited page's
--                  key is divided among them, and becomes 0; 3 a key is at least the link's value;
--                  4 like 2, but only `factor` times the key is divided, and the page keeps its own;
--                  5 a key is at least minus the distance through this link
--   factor, link   factor of rule 4, or discount of the distance in rule 5; length of a link in rule 5
--   new_key, seed_key, random_seed

local CONSTANT, RANDOM, STEP, DISTANCE, GIVEN, AGE = 0, 1, 2, 3, 4, 5
local COUNT_BACKLINKS, SPREAD, RAISE, PASS, SHORTEN = 1, 2, 3, 4, 5
local NO_PAGE = -1

-- 64-bit integers are four limbs of 16 bits, least significant first.

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

-- x xor (x >> shift), for shifts from 17 to 31.
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

-- Element `index` of the SplitMix64 sequence with this seed, in [0, 1).
local function uniform(seed, index)
  local x = plus(limbs(seed), times(limbs(index + 1), GOLDEN))
  x = times(mixed(x, 30), FIRST)
  x = times(mixed(x, 27), SECOND)
  x = mixed(x, 31)
  return (x[4] * 2 ^ 37 + x[3] * 2 ^ 21 + x[2] * 2 ^ 5 + floor(x[1] / 2 ^ 11)) * 2 ^ -53
end

-- Add a page.
local function add_page(hash, url, site, domain, pattern, depth, number, is_claim)
  local id = counts.pages
  counts.pages = id + 1
  add_identity(hash, id)
  local page = {
    key = counts.initial, given = number, site = site.id, tier = 0,
    depth = min(depth, 32767), state = UNKNOWN, leases = 0, flags = 0, dirty = true,
  }
  pages[id] = page
  count_page(id, page, site, domain, pattern, is_claim)
  add_url(id, site.host, url)
  return id
end

-- Links start at `args[at]`: number of hosts; each host and its registered domain; number of links; one
-- string with, for each link, the hash of its identity, the number of its host from 1, its pattern and
-- its value, packed as LINK; URLs of the links with a host, which come first; number of links whose
-- identity is not the URL; position from 1 and identity of each. A link with host 0 is not followed; it
-- is evidence if its target is known.
local LINK, LINK_SIZE, NO_PATTERN = '>c10I4c8d', 30, ('\0'):rep(8)

-- Links are stored by field, which is faster in Lua than by link. `find_or_add` sets `ids`, the page
-- of each link or false, and `added`, the positions of links that discovered a page.
local function read_links(args, at)
  local n_hosts = tonumber(args[at])
  local n_links, packed = tonumber(args[at + 2 * n_hosts + 1]), args[at + 2 * n_hosts + 2]
  local hashes, hosts, patterns, link_values, n_urls = {}, {}, {}, {}, 0
  for link = 1, n_links do
    local host, pattern
    hashes[link], host, pattern, link_values[link] =
      unpack_struct(LINK, packed, (link - 1) * LINK_SIZE + 1)
    hosts[link] = host
    patterns[link] = pattern == NO_PATTERN and '' or pattern
    n_urls = n_urls + (host > 0 and 1 or 0)
  end
  local links = {
    n = n_links, hashes = hashes, host_numbers = hosts, patterns = patterns,
    link_values = link_values, args = args, hosts_at = at - 1, urls_at = at + 2 * n_hosts + 2,
    ids = {}, added = {}, identities = {},
  }
  at = links.urls_at + n_urls + 1
  for own = 1, tonumber(args[at]) do
    links.identities[tonumber(args[at + 2 * own - 1])] = args[at + 2 * own]
  end
  links.after = at + 2 * tonumber(args[at]) + 1
  return links
end

-- A piece of a visit's links: number of followed or already queued links, which come first; positions of
-- links whose target an earlier piece has, as JSON; the links.
local function read_piece(args, at)
  local links = read_links(args, at + 2)
  links.n_followed, links.is_repeated = tonumber(args[at]), {}
  for _, link in ipairs(cjson.decode(args[at + 1])) do
    links.is_repeated[link] = true
  end
  return links
end

local function url_of_link(links, link)
  return links.args[links.urls_at + link]
end

-- Return host and registered domain of a followed link.
local function host_of_link(links, link)
  local at = links.hosts_at + 2 * links.host_numbers[link]
  return links.args[at], links.args[at + 1]
end

-- Read what adding the unknown ones among links takes: hosts, sites and tallies.
local function read_for_new(links)
  local hosts, domains, patterns, is_named = {}, {}, {}, {}
  for link = 1, links.n do
    local number = links.host_numbers[link]
    if not links.ids[link] and number > 0 then
      if not is_named[number] then
        is_named[number] = true
        hosts[#hosts + 1], domains[#domains + 1] = host_of_link(links, link)
      end
      patterns[#patterns + 1] = links.patterns[link]
    end
  end
  if #hosts > 0 then
    read_hosts(hosts)
    read_tallies(by_domain, domains)
    read_tallies(by_pattern, patterns)
  end
  return #hosts > 0
end

-- Find the pages of links, adding new ones.
--   source   the page that links to them, as in `has_room_for_site`; nil: none
--   room     ignore budgets
--   returns  the number of links that each budget refused, and their positions
local function find_or_add(links, depth, source, room)
  local refused, without_room = {}, {}
  local ids, host_numbers, hashes, added = links.ids, links.host_numbers, links.hashes, links.added
  find_pages(hashes, ids)
  if not read_for_new(links) then
    return refused, without_room
  end
  for link = 1, links.n do
    local hash = hashes[link]
    if not ids[link] then
      -- An earlier link may have the same target.
      ids[link] = new_pages_of[hash] or false
    end
    if not ids[link] and host_numbers[link] > 0 then
      local host, domain = host_of_link(links, link)
      local pattern = links.patterns[link]
      local introduces = source ~= nil and config.max_sites > 0 and not site_ids[host]
      local reason
      if introduces and not room then
        source.n_new = source.n_new + 1
        reason = not has_room_for_site(source) and 'sites'
      end
      if not reason then
        local site = site_of_host(host, domain)
        if introduces then
          count_site(site, source)
        end
        local is_claim = source ~= nil and domain ~= source.domain
        reason = not room and refusal(site, domain, pattern, is_claim)
        if not reason then
          ids[link] = add_page(hash, url_of_link(links, link), site, domain, pattern, depth,
            links.link_values[link], is_claim)
          added[#added + 1] = link
        end
      end
      if reason then
        without_room[#without_room + 1] = link
        refused[reason] = (refused[reason] or 0) + 1
      end
    end
  end
  return refused, without_room
end

-- Assign first keys to the pages that have none.
--   changed         receives the keys
--   parent_key      key that the visited page had before the visit
--   discovered_key  first key under rules 2, 3 and 5
local function assign_first_keys(changed, is_seed, parent_key, discovered_key)
  local rule = config.first_rule
  for id = counts.keyed, counts.pages - 1 do
    local new = page_of(id)
    if rule == CONSTANT then
      new.first_key = is_seed and config.seed_key or config.new_key
    elseif rule == RANDOM then
      local number = uniform(config.random_seed, id * config.shards + config.shard)
      new.first_key = parent_key + math.log(1 - number)
    elseif rule == AGE then
      new.first_key = is_seed and -now or discovered_key
    elseif rule == STEP or rule == DISTANCE then
      new.first_key = is_seed and 0 or discovered_key
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

-- Apply changed keys to the queue, and queue new pages.
local function apply_keys(changed)
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

-- Assign first keys and apply the evidence of a visit.
--   visited      the visited page; NO_PAGE: the targets are seeds
--   targets      distinct targets of its links, except the page itself
--   link_values  the value of each link
--   n_more       targets in other shards
--   returns      the parts of a message to other shards: the page's key before the visit, the first key
--                of the pages that it discovers, and its evidence as one number; nil: none
local function learn(visited, targets, link_values, n_more)
  local rule, is_seed = config.first_rule, visited == NO_PAGE
  local page = not is_seed and page_of(visited) or nil
  local again = page ~= nil and has_flag(page, is.observed)
  local before = page and page.key or 0
  if page and visited >= counts.keyed then
    before = config.initial_key
  end
  local changed, n_targets, evidence_value = {}, #targets + (n_more or 0), nil

  -- Minus the distance of the targets of a page with this key.
  local function distant(key)
    return -(config.factor * -key + math.log(max(n_targets, 1)) + config.link)
  end

  local discovered_key = 0
  if rule == STEP then
    discovered_key = config.shards > 1 and now or counts.visits + 1
  elseif rule == DISTANCE then
    discovered_key = distant(before)
  elseif rule == AGE then
    discovered_key = -now
  end
  assign_first_keys(changed, is_seed, is_seed and counts.parent or before, discovered_key)
  if page and not again then
    read_pages(targets)
    set_flag(page, is.observed, true)
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
    evidence_value = share
    if share ~= 0 then
      if evidence == SPREAD then
        -- A page that waits again, for another request, keeps its place.
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
      evidence_value = key or 0
      for at = 1, #targets do
        local id = targets[at]
        changed[id] = max(changed[id] or page_of(id).key, key or link_values[at])
      end
    end
    if rule == RANDOM then
      counts.parent, counts.initial = own_key, own_key - 1
    end
  end
  apply_keys(changed)
  return before, discovered_key, evidence_value
end

-- Do the same for a visit in another shard, with the values that `learn` returned there.
--   targets         distinct targets of its links
--   link_values     the value of each link
--   n_counted       number of targets that were counted there, which come first; the others, of links
--                   that are not followed, get no share
--   evidence_value  the evidence; nil: none
local function learn_from_message(targets, link_values, n_counted, before, discovered_key, evidence_value)
  local changed, evidence = {}, config.evidence_rule
  assign_first_keys(changed, false, before, discovered_key)
  if evidence_value then
    read_pages(targets)
    for at = 1, #targets do
      local id = targets[at]
      if evidence == RAISE or evidence == SHORTEN then
        local key = evidence == SHORTEN and evidence_value or link_values[at]
        changed[id] = max(changed[id] or page_of(id).key, key)
      elseif evidence_value ~= 0 and (at <= n_counted or evidence == COUNT_BACKLINKS) then
        changed[id] = (changed[id] or page_of(id).key) + evidence_value
      end
    end
  end
  apply_keys(changed)
end

-- Fields of a stream entry
--   n  number of the entry, from 1            c  id of the crawl
--   f  number of the first new page           u  URLs of the new pages
--   k  {position from 0, identity} of new pages whose identity is not the URL
--   s  hosts of the new pages                 d  their depth
--   e  seeds                                  p  visited page
--   t  target of each link, -1: none          v  the visit, as JSON from the worker
--   o  {position from 0, URL} of links that budgets refused
--   m  {shard, message} of each message sent  b  message received: "<shard> <run id> <number>"
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

-- Return the distinct targets of links except the visited page, with the value of the first link to
-- each; and how many of them are targets of followed links.
local function targets_of(links, visited)
  local targets, link_values, is_target, n = {}, {}, { [visited] = true }, 0
  for link = 1, links.n do
    local id = links.ids[link]
    if id and not is_target[id] and not links.is_repeated[link] then
      targets[#targets + 1] = id
      link_values[#targets] = links.link_values[link]
      is_target[id] = true
      n = link <= links.n_followed and #targets or n
    end
  end
  return targets, link_values, n
end

-- Return the elements of a list of numbers or lists as JSON, without its brackets.
local function elements(list)
  return #list > 0 and cjson.encode(list):sub(2, -2) or ''
end

-- Return the targets of the links from one position to another as elements; -1: none.
local function ids_as_elements(links, from, to)
  local ids = {}
  for link = from, to do
    ids[#ids + 1] = links.ids[link] or -1
  end
  return elements(ids)
end

-- Return position and URL of the links that budgets refused as elements; `first`: position of the first.
local function refused_as_elements(links, without_room, first)
  local refused = {}
  for at, link in ipairs(without_room) do
    refused[at] = { first + link - 1, url_of_link(links, link) }
  end
  return elements(refused)
end

local function join(one, other)
  return one == '' and other or other == '' and one or one .. ',' .. other
end

-- Flatten a table into a list of keys and values.
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
