-- Learn from a visit and end its lease: one round trip for a page and all its links.
--
--   [1]     lease. One that the worker does not have (any more) makes the visit void: its page
--           waits, or is another's, and will be fetched again.
--   [2]     1: the links were added as entries before, 0: new ones wait from now on
--   [3]     what the stream is to say of the visit, as JSON
--   [4]...  links, as `read_links` has them
--   result  1, or 0 for a void visit; pairs: the name of a budget, how many links it refused

function calls.observe(at, is_done)
  if is_done then
    return { 1 }
  end
  local lease = find_lease(worker, ARGV[at + 1])
  if lease == nil then
    return { 0 }
  end
  local visited, holds = lease[1], lease[3]
  forget_lease(worker, ARGV[at + 1])
  local page = page_of(visited)
  local links = read_links(at + 4)
  local depth, n_pages = page.depth + 1, counts.pages
  local refused, without_room = find_or_add(links, depth)
  local targets, numbers, is_target = {}, {}, { [visited] = true }
  for link = 1, links.n do
    local id = links.ids[link]
    if id and not is_target[id] then
      targets[#targets + 1] = id
      numbers[#targets] = links.numbers[link]
      is_target[id] = true
    end
  end
  learn(visited, targets, numbers)
  counts.links = counts.links + counts.pages - n_pages
  if config.records == 1 then
    local fields = new_pages(links, depth)
    local ids = {}
    for link = 1, links.n do
      ids[link] = links.ids[link] or -1
    end
    for at, link in ipairs(without_room) do
      without_room[at] = { link - 1, url_of_link(links, link) }
    end
    for _, field in ipairs({
      'p', visited, 't', #ids > 0 and cjson.encode(ids) or '[]', 'v', ARGV[at + 3],
    }) do
      fields[#fields + 1] = field
    end
    if #without_room > 0 then
      fields[#fields + 1] = 'o'
      fields[#fields + 1] = cjson.encode(without_room)
    end
    record(fields)
  end
  if holds then
    release(visited, page)
  end
  wait_for_rest(visited, page)
  if page.state == DONE and not has_flag(page, REPEATED) then
    forget_url(visited)
  end
  clear_attempts(visited, page)
  local told = {}
  for reason, count in pairs(refused) do
    told[#told + 1] = reason
    told[#told + 1] = count
  end
  return { 1, unpack(told) }
end
