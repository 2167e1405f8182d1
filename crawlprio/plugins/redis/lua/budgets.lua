-- Budgets, judged as by `crawlprio.web.budgets.Budgets`. Follows `leases.lua` in the scripts that learn.
--
-- A page that was first linked from another domain is a claim, until it has been fetched successfully.
-- A site that a link introduced is silent until one of its pages has been.
--
-- Settings in `config`; 0: no limit
--   per_site, per_domain, per_pattern         maximum number of pages
--   site_claims, domain_claims, pattern_claims  maximum number of claims among them
--   max_sites     maximum number of sites that links may add to those known in this shard
--   page_sites    maximum number of sites that one visit may add
--   domain_sites, silent_sites  maximum number of sites, and of silent sites, added by one domain

-- Pages; claims; sites that pages of the domain have introduced; silent sites among these.
local TALLY, PAGES_OF, CLAIMS_OF, SITES_OF, SILENT_OF = '>I4I4I4I4', 1, 2, 3, 4

local function tally(key, ...)
  local is_kept = false
  for _, limit in ipairs({ ... }) do
    is_kept = is_kept or limit > 0
  end
  return { key = key, is_kept = is_kept, of = {}, changed = {} }
end

local by_domain = tally(P .. ':domains', config.per_domain, config.max_sites)
local by_pattern = tally(P .. ':patterns', config.per_pattern)

-- Read many tallies in one round trip.
local function read_tallies(tallied, names)
  local missing, of = {}, tallied.of
  for at = 1, tallied.is_kept and #names or 0 do
    local name = names[at]
    if name ~= '' and of[name] == nil then
      of[name] = { 0, 0, 0, 0 }
      missing[#missing + 1] = name
    end
  end
  if #missing > 0 then
    for at, packed in ipairs(look_up(missing, 'HMGET', tallied.key)) do
      if packed then
        of[missing[at]] = { unpack_struct(TALLY, packed) }
      end
    end
  end
end

local function tally_of(tallied, name)
  if tallied.of[name] == nil then
    read_tallies(tallied, { name })
  end
  return tallied.of[name]
end

-- Add a number to a field of a tally, unless nothing counts it.
local function count_in(tallied, name, field, number)
  if tallied.is_kept and name ~= '' then
    local counted = tally_of(tallied, name)
    counted[field] = counted[field] + number
    tallied.changed[name] = true
  end
end

local silent_of = {} -- new silent sites -> domain

local function save_tallies()
  for _, tallied in ipairs({ by_domain, by_pattern }) do
    local values = {}
    for name in pairs(tallied.changed) do
      values[#values + 1] = name
      values[#values + 1] = pack(TALLY, unpack(tallied.of[name]))
    end
    if #values > 0 then
      call_in_chunks(values, 'HSET', tallied.key)
    end
  end
  local silent = {}
  for id, domain in pairs(silent_of) do
    silent[#silent + 1] = id
    silent[#silent + 1] = domain
  end
  if #silent > 0 then
    call_in_chunks(silent, 'HSET', P .. ':silent')
  end
end

-- Return the name of the first budget that has no room for one more page, or nil.
local function refusal(site, domain, pattern, is_claim)
  if config.per_site > 0 then
    if site.known >= config.per_site then
      return 'site-budget'
    elseif is_claim and site.claims >= config.site_claims then
      return 'claim-budget'
    end
  end
  if config.per_domain > 0 then
    local counted = tally_of(by_domain, domain)
    if counted[PAGES_OF] >= config.per_domain then
      return 'domain-budget'
    elseif is_claim and counted[CLAIMS_OF] >= config.domain_claims then
      return 'claim-budget'
    end
  end
  if config.per_pattern > 0 and pattern ~= '' then
    local counted = tally_of(by_pattern, pattern)
    if counted[PAGES_OF] >= config.per_pattern then
      return 'pattern-budget'
    elseif is_claim and counted[CLAIMS_OF] >= config.pattern_claims then
      return 'claim-budget'
    end
  end
end

-- Count a new page.
local function count_page(id, page, site, domain, pattern, is_claim)
  site.known, site.dirty = site.known + 1, true
  count_in(by_domain, domain, PAGES_OF, 1)
  count_in(by_pattern, pattern, PAGES_OF, 1)
  if is_claim then
    site.claims = site.claims + 1
    count_in(by_domain, domain, CLAIMS_OF, 1)
    count_in(by_pattern, pattern, CLAIMS_OF, 1)
    page.flags = page.flags + is.claim
    if by_pattern.is_kept and pattern ~= '' then
      call('HSET', P .. ':claims', id, pattern)
    end
  end
end

-- A page of this domain is no longer a claim.
local function end_claim(id, page, domain)
  if has_flag(page, is.claim) then
    set_flag(page, is.claim, false)
    local site = site_of(page.site)
    site.claims, site.dirty = site.claims - 1, true
    count_in(by_domain, domain, CLAIMS_OF, -1)
    local pattern = by_pattern.is_kept and call('HGET', P .. ':claims', id)
    if pattern then
      call('HDEL', P .. ':claims', id)
      count_in(by_pattern, pattern, CLAIMS_OF, -1)
    end
  end
end

-- A page of this domain was fetched successfully.
local function note_fetched(id, page, domain)
  local site = site_of(page.site)
  if site.silent == 1 then
    site.silent, site.dirty = 0, true
    local domain_of_source = silent_of[site.id] or call('HGET', P .. ':silent', site.id)
    count_in(by_domain, domain_of_source, SILENT_OF, -1)
    call('HDEL', P .. ':silent', site.id)
    silent_of[site.id] = nil
  end
  end_claim(id, page, domain)
end

-- Whether the source of links may introduce one more site.
--   source  { domain = registered domain of the linking page, n_new = sites it has tried to introduce }
local function has_room_for_site(source)
  local counted = tally_of(by_domain, source.domain)
  return source.n_new <= config.page_sites and n_known_hosts() < config.max_sites
    and counted[SITES_OF] < config.domain_sites and counted[SILENT_OF] < config.silent_sites
end

local function count_site(site, source)
  count_in(by_domain, source.domain, SITES_OF, 1)
  count_in(by_domain, source.domain, SILENT_OF, 1)
  site.silent, site.dirty = 1, true
  silent_of[site.id] = source.domain
end
