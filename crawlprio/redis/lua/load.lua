-- Take in pages, and a visit of them, of a crawl that was recorded elsewhere: without a lease, and
-- whether or not a budget has room.
--
--   [1]     page visited; '': the new pages are seeds, or were asked for by requests
--   [2]     depth of the new pages
--   [3]     what the stream is to say of the visit, as JSON
--   [4]     seeds among the pages, as JSON; without a visit
--   [5]     pages that the links of the visit mean, for the stream, as JSON
--   [6]...  links, as `read_links` has them: the new pages, which are followed, then what the
--           visited page links to, as evidence

function calls.load(at, is_done)
  if is_done then
    return {}
  end
  local links = read_links(at + 6)
  local n_pages = counts.pages
  find_or_add(links, tonumber(ARGV[at + 2]), true)
  local visited = tonumber(ARGV[at + 1])
  local targets, numbers, is_seed = {}, {}, {}
  if visited == nil then
    for _, id in ipairs(cjson.decode(ARGV[at + 4])) do
      is_seed[id] = true
    end
  end
  for link = 1, links.n do
    local id = links.ids[link]
    if visited and links.host_numbers[link] == 0 or is_seed[id] then
      targets[#targets + 1] = id
      numbers[#targets] = links.numbers[link]
    end
  end

  -- The page was fetched, and waits no more.
  local function stop_waiting(id)
    local page = page_of(id)
    if page.state == WAITING then
      local site = site_of(page.site)
      leave(id, page, site)
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
    learn(visited, targets, numbers)
    stop_waiting(visited)
    forget_url(visited)
  else
    learn(NO_PAGE, targets, numbers)
  end
  counts.links = counts.links + counts.pages - n_pages
  local fields = new_pages(links, tonumber(ARGV[at + 2]))
  local said = { 'e', ARGV[at + 4] }
  if visited then
    said = { 'p', visited, 't', ARGV[at + 5], 'v', ARGV[at + 3] }
  end
  for _, field in ipairs(said) do
    fields[#fields + 1] = field
  end
  record(fields)
  return {}
end
