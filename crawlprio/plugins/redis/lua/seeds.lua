-- Queue plain pages as seeds, in order; known pages are left alone.
--
--   [1]...  links, see `read_links`
--   result  pairs: name of a budget, number of seeds that it refused

function calls.seeds(at, is_done)
  if is_done then
    return {}
  end
  local links = read_links(ARGV, at + 1)
  local n_pages = counts.pages
  local refused = find_or_add(links, 0, nil)
  local ids, link_values = {}, {}
  for at, link in ipairs(links.added) do
    ids[at], link_values[at] = links.ids[link], links.link_values[link]
  end
  learn(NO_PAGE, ids, link_values)
  counts.links = counts.links + counts.pages - n_pages
  local fields = new_pages(links, 0)
  if #ids > 0 or config.elected == 1 then
    fields[#fields + 1] = 'e'
    fields[#fields + 1] = #ids > 0 and cjson.encode(ids) or '[]'
  end
  record(fields)
  return as_pairs(refused)
end
