-- Load pages, and one visit, of a crawl recorded elsewhere: without a lease, and ignoring budgets.
--
--   [1]     visited page; '': the new pages are seeds or pages of requests
--   [2]     depth of the new pages
--   [3]     the visit, as JSON for the stream
--   [4]     without a visit: seeds among the pages, as JSON
--   [5]     target of each link of the visit, as JSON for the stream
--   [6]     the visited page's registered domain; '' if no budget counts it
--   [7]     1: it was fetched successfully; 0: not
--   [8]...  links, see `read_links`: the new pages as followed links, then the visit's links as evidence

function calls.load(at, is_done)
  if is_done then
    return {}
  end
  local links = read_links(ARGV, at + 8)
  local n_pages = counts.pages
  local visited, domain = tonumber(ARGV[at + 1]), ARGV[at + 6]
  local source = visited and { domain = domain } or nil
  find_or_add(links, tonumber(ARGV[at + 2]), source, true)
  local targets, link_values, is_seed = {}, {}, {}
  if visited == nil then
    for _, id in ipairs(cjson.decode(ARGV[at + 4])) do
      is_seed[id] = true
    end
  end
  for link = 1, links.n do
    local id = links.ids[link]
    if visited and links.host_numbers[link] == 0 or is_seed[id] then
      targets[#targets + 1] = id
      link_values[#targets] = links.link_values[link]
    end
  end

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

  if visited then
    if visited < counts.pages then
      stop_waiting(visited)
    end
    if ARGV[at + 7] == '1' then
      note_fetched(visited, page_of(visited), domain)
    end
    counts.fetched = counts.fetched + 1
    learn(visited, targets, link_values)
    stop_waiting(visited)
    forget_url(visited)
  else
    learn(NO_PAGE, targets, link_values)
  end
  counts.links = counts.links + counts.pages - n_pages
  local fields = new_pages(links, tonumber(ARGV[at + 2]))
  local visit_fields = { 'e', ARGV[at + 4] }
  if visited then
    visit_fields = { 'p', visited, 't', ARGV[at + 5], 'v', ARGV[at + 3] }
  end
  for _, field in ipairs(visit_fields) do
    fields[#fields + 1] = field
  end
  record(fields)
  return {}
end
