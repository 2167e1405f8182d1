-- Receive a message: links of a visit in another shard to pages of this one. Idempotent.
--
--   [1,2]    sender: its shard and run id; number of the message from this sender to this shard, from 1
--   [3]      registered domain of the visited page
--   [4]      depth of new pages
--   [5..7]   the values that `learn` returned in the visited page's shard; the last may be ''
--   [8]      links as msgpack of what `read_piece` reads
--   result   pairs: name of a budget, number of links that it refused

function calls.deliver(at, is_done)
  local sender = ARGV[at + 1]
  if is_done or call('SETBIT', P .. ':inbox:' .. sender, ARGV[at + 2], 1) == 1 then
    return {}
  end
  local links = read_piece(cmsgpack.unpack(ARGV[at + 8]), 1)
  local depth, n_pages = tonumber(ARGV[at + 4]), counts.pages
  local refused, without_room = find_or_add(links, depth, { domain = ARGV[at + 3], n_new = 0 })
  local targets, link_values, n_counted = targets_of(links, NO_PAGE)
  learn_from_message(targets, link_values, n_counted, tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]),
    tonumber(ARGV[at + 7]))
  counts.links = counts.links + counts.pages - n_pages
  if config.records == 1 then
    local fields = new_pages(links, depth)
    local ids = '[' .. ids_as_elements(links, 1, links.n) .. ']'
    local outside = '[' .. refused_as_elements(links, without_room, 0) .. ']'
    for _, field in ipairs({ 'b', sender .. ' ' .. ARGV[at + 2], 't', ids, 'o', outside }) do
      fields[#fields + 1] = field
    end
    record(fields)
  end
  return as_pairs(refused)
end
