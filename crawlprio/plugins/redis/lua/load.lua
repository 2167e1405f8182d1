-- Load pages, and one visit, of a crawl recorded elsewhere: without a lease, and ignoring budgets.
--
-- Of a visit with many links, this call takes the first; `more.lua` takes the others.
--
--   [1]     visited page; '': the new pages are seeds or pages of requests
--   [2]     depth of the new pages
--   [3]     the visit, as JSON for the stream
--   [4]     without a visit: seeds among the pages, as JSON
--   [5]     target of each link of the visit, as JSON for the stream
--   [6]     the visited page's registered domain
--   [7]     1: it was got; 2: it redirected to another; 0: neither
--   [8]...  links, see `read_piece`: new pages, then targets that are known. All links count as
--           followed; "repeated" are new pages that the visit does not link to. Then the number of
--           further distinct targets in the parts; number of parts; each part, as msgpack

function calls.load(at, is_done)
  if is_done then
    return {}
  end
  local links, depth = read_piece(ARGV, at + 8), tonumber(ARGV[at + 2])
  local n_more, n_parts = tonumber(ARGV[links.after]), tonumber(ARGV[links.after + 1])
  local n_pages, visited, domain = counts.pages, tonumber(ARGV[at + 1]), ARGV[at + 6]
  local source = visited and { domain = domain } or nil
  find_or_add(links, depth, source, true)

  -- Dequeue a page that has been visited.
  local function stop_waiting(id)
    local page = page_of(id)
    if page.state == WAITING then
      local site = site_of(page.site)
      dequeue(id, page, site)
      page.state, page.dirty = DONE, true
      site.waiting, site.dirty = site.waiting - 1, true
      counts.waiting = counts.waiting - 1
      touch(site)
    end
  end

  if not visited then
    local seeds, link_values, is_seed = {}, {}, {}
    for _, id in ipairs(cjson.decode(ARGV[at + 4])) do
      is_seed[id] = true
    end
    for link = 1, links.n do
      if is_seed[links.ids[link]] then
        seeds[#seeds + 1] = links.ids[link]
        link_values[#seeds] = links.link_values[link]
      end
    end
    learn(NO_PAGE, seeds, link_values)
    counts.links = counts.links + counts.pages - n_pages
    local fields = new_pages(links, depth)
    fields[#fields + 1] = 'e'
    fields[#fields + 1] = ARGV[at + 4]
    record(fields)
    return {}
  end
  stop_waiting(visited)
  if ARGV[at + 7] ~= '0' then
    counts.fetched = counts.fetched + 1
  end
  if ARGV[at + 7] == '1' then
    note_fetched(visited, page_of(visited), domain)
  end
  local targets, link_values = targets_of(links, visited)
  local before, discovered_key, evidence = learn(visited, targets, link_values, n_more)
  stop_waiting(visited)
  forget_url(visited)
  counts.links = counts.links + counts.pages - n_pages
  local visit = begin_visit(visited, depth, ARGV[at + 3], source, before, discovered_key, evidence)
  visit.targets, visit.room = ARGV[at + 5], true
  if n_parts == 0 then
    record_visit(visit, new_pages(links, depth))
  else
    record(new_pages(links, depth))
    keep_parts(visit, worker .. ' ' .. visited, links.after + 2, n_parts)
  end
  return {}
end
