-- Take the next part of a visit; see `parts.lua`.
--
--   [1]     name of the visit: "<worker> <lease>"
--   result  pairs: name of a budget, number of links that it refused

function calls.more(at, is_done)
  if is_done then
    return {}
  end
  local name = ARGV[at + 1]
  local key = parts_key(name)
  local packed = call('LPOP', key)
  if not packed then
    -- The worker that this one took over from was still alive, and has taken the last part.
    forget_message('parts ' .. name)
    return {}
  end
  local visit = cmsgpack.unpack(packed)
  local links, n_pages = read_piece(cmsgpack.unpack(call('LPOP', key)), 1), counts.pages
  local refused, without_room = find_or_add(links, visit.depth, visit.source, visit.room)
  local targets, link_values, n_counted = targets_of(links, visit.page)
  learn_from_message(targets, link_values, n_counted, visit.before, visit.discovered_key,
    visit.evidence)
  counts.links = counts.links + counts.pages - n_pages
  local fields = note_links(visit, links, without_room)
  if call('EXISTS', key) == 1 then
    record(fields)
    call('LPUSH', key, cmsgpack.pack(visit))
  else
    record_visit(visit, fields)
    forget_message('parts ' .. name)
  end
  return as_pairs(refused)
end
