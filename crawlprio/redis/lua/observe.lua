-- Learn from a visit and end its lease: one round trip for a page and all its links.
--
--   [1]     lease. One that the worker does not have (any more) makes the visit void: its page
--           waits, or is another's, and will be fetched again.
--   [2]     1: the links were added as entries before, 0: new ones wait from now on
--   [3]     what the stream is to say of the visit, as JSON
--   [4]...  links, as `read_links` has them, those to pages of this shard; then the number of messages to
--           others, and of each the shard, targets among its links that are followed or were added
--           before, such links, the number of its arguments, and these: its links
--   result  1, or 0 for a void visit, or 2 for one that was observed before; messages, in the order
--           given: the first seven arguments of `deliver.lua` of each; pairs: the name of a budget,
--           how many links it refused

-- Leave messages for the worker to deliver; returns the start of each, and what the stream says.
local function send(at, n_messages, depth, before, shown, told)
  local run_id = call('HGET', P .. ':config', 'run_id')
  local sender, stored, sent, tokens = exact(config.shard) .. ' ' .. run_id, {}, {}, {}
  for message = 1, n_messages do
    local shard, n_arguments = ARGV[at], tonumber(ARGV[at + 3])
    local channel = shard .. ' ' .. run_id
    local number = exact(call('HINCRBY', P .. ':numbers', channel, 1))
    local arguments = {
      sender, number, exact(depth), ARGV[at + 2], exact(before), exact(shown),
      told and exact(told) or '',
    }
    sent[message] = { unpack(arguments) }
    for from = at + 4, at + 3 + n_arguments do
      arguments[#arguments + 1] = ARGV[from]
    end
    stored[#stored + 1] = channel .. ' ' .. number
    stored[#stored + 1] = cmsgpack.pack(arguments)
    tokens[message] = { tonumber(shard), sender .. ' ' .. number }
    at = at + 4 + n_arguments
  end
  if n_messages > 0 then
    counts.outgoing = counts.outgoing + n_messages
    call_in_parts(stored, 'HSET', P .. ':outbox:' .. worker)
  end
  return sent, tokens
end

function calls.observe(at, is_done)
  if is_done then
    return { 2, {} }
  end
  local lease = find_lease(worker, ARGV[at + 1])
  if lease == nil then
    return { 0, {} }
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
  local n_messages, n_elsewhere = tonumber(ARGV[links.after]), 0
  local message_at = links.after + 1
  for _ = 1, n_messages do
    n_elsewhere = n_elsewhere + tonumber(ARGV[message_at + 1])
    message_at = message_at + 4 + tonumber(ARGV[message_at + 3])
  end
  local before, shown, told = learn(visited, targets, numbers, n_elsewhere)
  local sent, tokens = send(links.after + 1, n_messages, depth, before, shown, told)
  counts.links = counts.links + counts.pages - n_pages
  if config.records == 1 then
    local fields = new_pages(links, depth)
    local ids, outside = links_as_json(links, without_room)
    for _, field in ipairs({ 'p', visited, 't', ids, 'v', ARGV[at + 3] }) do
      fields[#fields + 1] = field
    end
    if #tokens > 0 then
      fields[#fields + 1] = 'm'
      fields[#fields + 1] = cjson.encode(tokens)
    end
    if outside ~= '[]' then
      fields[#fields + 1] = 'o'
      fields[#fields + 1] = outside
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
  return { 1, sent, unpack(as_pairs(refused)) }
end
