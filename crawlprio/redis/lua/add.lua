-- Queue a page that a request asks for.
--
--   ARGV[3..8]   its link, as `read_links` has it, but for the host: hash, URL, identity, host,
--                registered domain, pattern
--   ARGV[9]      number for the rules
--   ARGV[10]     depth
--   ARGV[11]     priority
--   ARGV[12]     request as JSON; '': a plain GET
--   ARGV[13,14]  repeats, is a seed: 1 or 0
--   result       1: it waits; 0: a duplicate; or the budget that has no room

local is_done, err = begin()
if err then
  return err
end
if is_done then
  return finish(1)
end
local hash, url, identity, host = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local domain, pattern, number = ARGV[7], ARGV[8], tonumber(ARGV[9])
local depth, priority, request = tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12]
local repeats, is_seed = ARGV[13] == '1', ARGV[14] == '1'
local id = find_page(hash)
if id == nil then
  local site = site_of_host(host)
  local reason = not is_seed and refusal(site, domain, pattern)
  if reason then
    return finish(reason)
  end
  id = add_page(hash, url, site, domain, pattern, depth, number)
  save_tally(by_domain)
  save_tally(by_pattern)
  local page = pages[id]
  if request ~= '' then
    add_request(id, priority, request)
  end
  set_flag(page, UNFILTERED, repeats)
  local identities = identity ~= '' and { { 0, identity } } or {}
  local fields = page_fields(id, { url }, { host }, depth, identities)
  if is_seed then
    learn(NO_PAGE, { id }, { number })
    fields[#fields + 1] = 'e'
    fields[#fields + 1] = cjson.encode({ id })
  end
  record(fields)
  if id >= counts.keyed and config.first_rule == GIVEN then
    call('HSET', P .. ':given', id, exact(number))
  end
  if page.state ~= WAITING or priority ~= 0 then
    queue(id, page, priority)
  end
  return finish(1)
end
local page = page_of(id)
if has_flag(page, UNFILTERED) and not repeats then
  set_flag(page, UNFILTERED, false)
  repeats = true
end
local is_link = page.state == WAITING and request ~= '' and #requests_of(id) == 0
if not (repeats or is_link or page.state == UNKNOWN) then
  return finish(0)
end
-- Several leases may need its URL from now on.
set_flag(page, REPEATED, true)
local is_alone = (is_link or page.state == UNKNOWN) and #requests_of(id) == 0
if request ~= '' or not is_alone then
  add_request(id, priority, request)
end
if page.state ~= WAITING then
  keep_url(id, site_of(page.site).host, url)
end
if page.leases < 255 then
  queue(id, page, priority)
end
return finish(1)
