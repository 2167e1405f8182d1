-- The rule that no registered domain holds more than half of all fetches while pages of others wait, as in
-- `crawlprio.frontier.domain_shares`. Follows `queue.lua`.
--
-- A domain that has its share gets no page while pages of other domains are ready, or left less than
-- `lately` seconds ago. Its sites are held back as they come first in the queue, and return one by one as
-- its fetches end. The share is half of the fetches that all workers make at once, divided by the number
-- of shards. A call holds back and returns a limited number of sites; the next call continues.

local MAX_SITES = 100
local UNLIMITED = 2 ^ 30 -- fetches at once of a worker without a limit
local can_hold, can_return = MAX_SITES, MAX_SITES

local domains = {} -- the functions for other files
local flights, changed_flights = {}, {} -- domain -> leases that hold their sites
local shares, shares_before = nil, nil

-- latest           domain of the page that left last, and when
-- other_left_at    time at which a page of another domain left last
-- alone, alone_until  a domain that may exceed its share, as no other has pages
-- returning        domains of which all sites are to return
local function shares_of_crawl()
  if shares == nil then
    shares_before = call('GET', P .. ':shares')
    shares = shares_before and cmsgpack.unpack(shares_before) or {
      latest = 0, latest_left_at = -huge, other_left_at = -huge, alone = 0, alone_until = -huge,
      returning = {},
    }
  end
  return shares
end

local function in_flight(domain)
  if flights[domain] == nil then
    flights[domain] = tonumber(call('HGET', P .. ':flights', domain) or 0)
  end
  return flights[domain]
end

local function set_in_flight(domain, number)
  flights[domain], changed_flights[domain] = number, true
end

function domains.save()
  for domain in pairs(changed_flights) do
    if flights[domain] == 0 then
      call('HDEL', P .. ':flights', domain)
    else
      call('HSET', P .. ':flights', domain, flights[domain])
    end
  end
  local packed = shares and cmsgpack.pack(shares)
  if packed and packed ~= shares_before then
    call('SET', P .. ':shares', packed)
  end
end

local function most_of_domain()
  if counts.fetches < 2 or counts.fetches >= UNLIMITED then
    return huge
  end
  return max(floor(counts.fetches / 2 / config.shards), 1)
end

-- Return up to `number` sites of a domain to the queue; return how many did.
local function return_sites(domain, number)
  local key, n_returned = P .. ':held:' .. domain, 0
  while n_returned < min(number, can_return) do
    local id = call('LPOP', key)
    if not id then
      break
    end
    local site = site_of(tonumber(id))
    site.is_held = 0
    touch(site)
    n_returned = n_returned + 1
  end
  counts.held = counts.held - n_returned
  can_return = can_return - n_returned
  if call('EXISTS', key) == 0 then
    call('ZREM', P .. ':held', domain)
    shares_of_crawl().returning[tostring(domain)] = nil
  elseif number == huge then
    shares_of_crawl().returning[tostring(domain)] = true
  end
  return n_returned
end

-- Return sites of domains of which all are to return.
function domains.continue_returning()
  if counts.held > 0 then
    local names = {}
    for domain in pairs(shares_of_crawl().returning) do
      names[#names + 1] = domain
    end
    for _, domain in ipairs(names) do
      return_sites(tonumber(domain), huge)
    end
  end
end

function domains.has_sites_to_return()
  return counts.held > 0 and next(shares_of_crawl().returning) ~= nil
end

-- Whether a domain may have one more page.
function domains.has_share(domain)
  local known = shares_of_crawl()
  return in_flight(domain) < most_of_domain() or (domain == known.alone and now < known.alone_until)
end

-- Hold back a site, the first in the queue, whose domain has its share; return false if this call has held
-- back too many.
function domains.hold_back(site)
  local domain = site.domain
  if can_hold == 0 then
    return false
  end
  can_hold = can_hold - 1
  if limit_of(site) > 1 then
    site.ready_at = now
  end
  site.is_held = 1
  touch(site)
  if call('RPUSH', P .. ':held:' .. domain, site.id) == 1 then
    local last = call('ZRANGE', P .. ':held', -1, -1, 'WITHSCORES')
    call('ZADD', P .. ':held', (tonumber(last[2]) or 0) + 1, domain)
  end
  shares_of_crawl().returning[tostring(domain)] = nil
  counts.held = counts.held + 1
  return true
end

-- Return the sites of a domain that were held back for nobody; return whether there was one.
function domains.find_alone()
  if counts.held == 0 then
    return false
  end
  local known = shares_of_crawl()
  local domain, left_at = known.latest, known.other_left_at
  if call('EXISTS', P .. ':held:' .. domain) == 0 then
    domain, left_at = tonumber(call('ZRANGE', P .. ':held', 0, 0)[1]), known.latest_left_at
  end
  if now - left_at < config.lately then
    return false
  end
  known.alone, known.alone_until = domain, now + config.lately
  return return_sites(domain, huge) > 0
end

-- A page of a domain is handed out.
function domains.note_handed_out(domain)
  local known = shares_of_crawl()
  set_in_flight(domain, in_flight(domain) + 1)
  if domain ~= known.latest then
    known.other_left_at, known.latest = known.latest_left_at, domain
  end
  if domain ~= known.alone then
    known.alone = 0
  end
  known.latest_left_at = now
end

-- A page of a domain that was handed out no longer holds its site.
function domains.note_ended(domain)
  local number = max(in_flight(domain) - 1, 0)
  set_in_flight(domain, number)
  if counts.held > 0 then
    if number == 0 then
      return_sites(domain, huge)
    elseif number < most_of_domain() then
      return_sites(domain, 1)
    end
  end
end
