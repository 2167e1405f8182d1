-- Queue plain pages as seeds, all at once and in their order; those known already stay as they are.
--
--   [1]...  links, as `read_links` has them
--   result  pairs: the name of a budget, how many seeds it refused

function calls.seeds(at, is_done)
  if is_done then
    return {}
  end
  local links = read_links(at + 1)
  local n_pages = counts.pages
  local refused = find_or_add(links, 0)
  local ids, numbers = {}, {}
  for at, link in ipairs(links.added) do
    ids[at], numbers[at] = links.ids[link], links.numbers[link]
  end
  learn(NO_PAGE, ids, numbers)
  counts.links = counts.links + counts.pages - n_pages
  local fields = new_pages(links, 0)
  if #ids > 0 or config.elected == 1 then
    fields[#fields + 1] = 'e'
    fields[#fields + 1] = #ids > 0 and cjson.encode(ids) or '[]'
  end
  record(fields)
  local told = {}
  for reason, count in pairs(refused) do
    told[#told + 1] = reason
    told[#told + 1] = count
  end
  return told
end
