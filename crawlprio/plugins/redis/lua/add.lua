-- Queue a page for a request.
--
--   [1..6]   hash of its identity, URL, identity ('' if it is the URL), host, registered domain, pattern
--   [7]      value of the link
--   [8]      depth
--   [9]      priority
--   [10]     request as JSON; '': a plain GET
--   [11,12]  repeats, is a seed: 1 or 0
--   result   1: queued; 0: duplicate; or the name of the budget that refused it

function calls.add(at, is_done)
  if is_done then
    return { 1 }
  end
  local hash, url, identity, host = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local domain, pattern, number = ARGV[at + 5], ARGV[at + 6], tonumber(ARGV[at + 7])
  local depth, priority, request = tonumber(ARGV[at + 8]), tonumber(ARGV[at + 9]), ARGV[at + 10]
  local repeats, is_seed = ARGV[at + 11] == '1', ARGV[at + 12] == '1'
  local id = find_page(hash)
  if id == nil then
    local site = site_of_host(host, domain)
    local reason = not is_seed and refusal(site, domain, pattern, false)
    if reason then
      return { reason }
    end
    id = add_page(hash, url, site, domain, pattern, depth, number, false)
    local page = pages[id]
    if request ~= '' then
      add_request(id, priority, request)
    end
    set_flag(page, is.unfiltered, repeats)
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
      page.given = nil
    end
    if page.state ~= WAITING or priority ~= 0 then
      queue(id, page, priority)
    end
    return { 1 }
  end
  local page = page_of(id)
  if has_flag(page, is.unfiltered) and not repeats then
    set_flag(page, is.unfiltered, false)
    repeats = true
  end
  local is_link = page.state == WAITING and request ~= '' and #requests_of(id) == 0
  if not (repeats or is_link or page.state == UNKNOWN) then
    return { 0 }
  end
  -- From now on, several leases may need the URL.
  set_flag(page, is.repeated, true)
  local is_alone = (is_link or page.state == UNKNOWN) and #requests_of(id) == 0
  if request ~= '' or not is_alone then
    add_request(id, priority, request)
  end
  if page.state ~= WAITING then
    replace_url(id, site_of(page.site).host, url)
  end
  if page.leases < 255 then
    queue(id, page, priority)
  end
  return { 1 }
end
