-- Take over the leases of a dead worker, then lease the next pages.
--
--   [1]  maximum number of pages; 0: only return the state of the shard
--   [2]  1: lease nothing until the elected worker has written the keys of all stream entries
--   [3]  maximum number of pages that the crawl fetches, by all workers; '': no limit
--   result  "enough": that many were fetched. Otherwise five values per page: lease, URL, depth, request
--           ('': a plain GET), host. A retry returns
--           the leases of the first attempt. A lease is seq x 1000 + its position.

-- Return the first page of the first ready site, or nil.
local function first_ready()
  if counts.ready == 0 then
    return nil
  end
  save_places()
  for _, tier in ipairs(call('ZRANGE', P .. ':tiers', 0, -1)) do
    local first = call('ZRANGE', P .. ':ready:' .. tier, 0, 0)[1]
    if first then
      return (unpack_struct('>I4', first))
    end
    if tier ~= '0' then
      call('ZREM', P .. ':tiers', tier)
    end
  end
end

local function append_handout(result, lease, id, request)
  local page = page_of(id)
  local site = site_of(page.site)
  result[#result + 1] = lease
  result[#result + 1] = url_of(id, site.host)
  result[#result + 1] = page.depth
  result[#result + 1] = request
  result[#result + 1] = site.host
end

-- Take over from the worker that has been dead longest.
local function take_over_dead()
  local dead = call('ZRANGEBYSCORE', P .. ':workers', '-inf', '(' .. exact(now), 'LIMIT', 0, 1)[1]
  if dead then
    take_over(dead, call('HKEYS', P .. ':leases:' .. dead), true)
    orphan_messages(dead)
    set_fetches(dead, '0')
    call('ZREM', P .. ':workers', dead)
    call('DEL', P .. ':worker:' .. dead, P .. ':leases:' .. dead)
  end
end

-- Place the sites whose delay has ended.
local function place_due()
  while true do
    save_places()
    local due = call('ZRANGEBYSCORE', P .. ':delayed', '-inf', exact(now), 'LIMIT', 0, 100)
    if #due == 0 then
      return
    end
    for at, id in ipairs(due) do
      due[at] = tonumber(id)
    end
    read_sites(due)
    for _, id in ipairs(due) do
      place(site_of(id))
    end
  end
end

-- Return the first page whose domain may have one more, or nil.
local function first_to_leave()
  while true do
    place_touched()
    local id = first_ready()
    if id == nil then
      if not domains.find_alone() then
        return nil
      end
    else
      local site = site_of(page_of(id).site)
      if domains.has_share(site.domain) then
        return id
      elseif not domains.hold_back(site) then
        return nil
      end
    end
  end
end

local function lease_pages(n_pages, result)
  domains.continue_returning()
  place_due()
  local records = {}
  for place_of_lease = 0, n_pages - 1 do
    local id = first_to_leave()
    if id == nil then
      break
    end
    local page = page_of(id)
    local site = site_of(page.site)
    dequeue(id, page, site)
    site.waiting = site.waiting - 1
    site.leased = site.leased + 1
    site.unstarted = site.unstarted + 1
    counts.waiting = counts.waiting - 1
    counts.leased = counts.leased + 1
    domains.note_handed_out(site.domain)
    page.state, page.leases, page.dirty = LEASED, page.leases + 1, true
    if limit_of(site) > 1 then
      site.ready_at = max(site.ready_at, now + delay_of(site, 0))
    end
    local request, priority = pop_request(id)
    requeue(id, page)
    place(site)
    local lease = exact(seq * 1000 + place_of_lease)
    records[#records + 1] = lease
    records[#records + 1] = lease_record(id, site.id, true, request, priority, now)
    append_handout(result, lease, id, request)
  end
  if #records > 0 then
    call_in_chunks(records, 'HSET', P .. ':leases:' .. worker)
  end
end

function calls.lease(at, is_done)
  local n_pages, awaits_keys = tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  local max_pages, result = tonumber(ARGV[at + 3]) or huge, {}
  if is_done then
    for place_of_lease = 0, n_pages - 1 do
      local lease = exact(seq * 1000 + place_of_lease)
      local known = find_lease(worker, lease)
      if known and known[1] >= 0 then
        append_handout(result, lease, known[1], known[4])
      end
    end
    return result
  end
  take_over_dead()
  place_touched()
  if (call('HGET', P .. ':config', 'state') or '') ~= '' then
    -- Paused or draining; see `crawlprio frontier`.
    ask_again_at = now + 0.5
  elseif awaits_keys and tonumber(call('HGET', P .. ':elected', 'read') or 0) < counts.recorded then
    ask_again_at = now + 0.05
  elseif counts.fetched >= max_pages then
    result = { 'enough' }
  elseif counts.fetched + counts.leased >= max_pages then
    ask_again_at = now + 0.1
  elseif now >= counts.rest_until then
    lease_pages(min(n_pages, max_pages - counts.fetched - counts.leased), result)
    place_touched()
  end
  return result
end
