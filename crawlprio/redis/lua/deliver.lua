-- Receive a message: the links of a visit in another shard to pages of this one. Idempotent.
--
--   [1,2]    sender: its shard and run id; number of the message from this sender to this shard, from 1
--   [3]      registered domain of the visited page; '' if no budget counts it
--   [4]      depth of new pages
--   [5]      number of followed or already queued links, which come first
--   [6..8]   the values that `learn` returned in the visited page's shard; the last may be ''
--   [9]...   links, see `read_links`
--   result   pairs: name of a budget, number of links that it refused

function calls.deliver(at, is_done)
  if is_done then
    return {}
  end
  local sender = ARGV[at + 1]
  if call('SETBIT', P .. ':inbox:' .. sender, ARGV[at + 2], 1) == 1 then
    return {}
  end
  local links = read_links(at + 9)
  local depth, n_pages, n_counted_links = tonumber(ARGV[at + 4]), counts.pages, tonumber(ARGV[at + 5])
  local refused, without_room = find_or_add(links, depth, { domain = ARGV[at + 3], n_new = 0 })
  local targets, link_values, is_target, n_counted = {}, {}, {}, 0
  for link = 1, links.n do
    local id = links.ids[link]
    if id and not is_target[id] then
      targets[#targets + 1] = id
      link_values[#targets] = links.link_values[link]
      is_target[id] = true
      n_counted = link <= n_counted_links and #targets or n_counted
    end
  end
  learn_from_message(targets, link_values, n_counted, tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7]),
    tonumber(ARGV[at + 8]))
  counts.links = counts.links + counts.pages - n_pages
  if config.records == 1 then
    local fields = new_pages(links, depth)
    local ids, outside = links_as_json(links, without_room)
    for _, field in ipairs({ 'b', sender .. ' ' .. ARGV[at + 2], 't', ids, 'o', outside }) do
      fields[#fields + 1] = field
    end
    record(fields)
  end
  return as_pairs(refused)
end
