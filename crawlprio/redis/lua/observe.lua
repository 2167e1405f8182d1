-- Learn from a visit and end its lease, in one call for a page and all its links.
--
--   [1]     lease. If the worker no longer has it, the visit is ignored: its page is waiting again or
--           leased to another worker.
--   [2]     1: the links were queued as requests before; 0: queue them
--   [3]     the visit, as JSON for the stream
--   [4]     1: the page was fetched successfully; 0: not
--   [5]     its registered domain; '' if no budget counts it
--   [6]...  links to pages of this shard, see `read_links`; number of messages; for each message the
--           shard, the distinct targets of its followed or already queued links, the number of these
--           links, the number of arguments that follow, and its packed links
--   result  1; 0: ignored; 2: a retry. Then the first eight arguments of `deliver.lua` for each message;
--           then pairs: name of a budget, number of links that it refused

-- Put messages into the worker's outbox; return the first arguments of each, and its name.
local function send(at, n_messages, domain, depth, before, discovered_key, evidence_value)
  local run_id = call('HGET', P .. ':config', 'run_id')
  local sender, stored, sent, tokens = exact(config.shard) .. ' ' .. run_id, {}, {}, {}
  for message = 1, n_messages do
    local shard, n_arguments = ARGV[at], tonumber(ARGV[at + 3])
    local channel = shard .. ' ' .. run_id
    local number = exact(call('HINCRBY', P .. ':numbers', channel, 1))
    local arguments = {
      sender, number, domain, exact(depth), ARGV[at + 2], exact(before), exact(discovered_key),
      evidence_value and exact(evidence_value) or '',
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
    call_in_chunks(stored, 'HSET', P .. ':outbox:' .. worker)
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
  local links = read_links(at + 6)
  local depth, n_pages, domain = page.depth + 1, counts.pages, ARGV[at + 5]
  local refused, without_room = find_or_add(links, depth, { domain = domain, n_new = 0 })
  if ARGV[at + 4] == '1' then
    note_fetched(visited, page, domain)
  end
  local targets, link_values, is_target = {}, {}, { [visited] = true }
  for link = 1, links.n do
    local id = links.ids[link]
    if id and not is_target[id] then
      targets[#targets + 1] = id
      link_values[#targets] = links.link_values[link]
      is_target[id] = true
    end
  end
  local n_messages, n_elsewhere = tonumber(ARGV[links.after]), 0
  local message_at = links.after + 1
  for _ = 1, n_messages do
    n_elsewhere = n_elsewhere + tonumber(ARGV[message_at + 1])
    message_at = message_at + 4 + tonumber(ARGV[message_at + 3])
  end
  local before, discovered_key, evidence_value = learn(visited, targets, link_values, n_elsewhere)
  local sent, tokens = send(links.after + 1, n_messages, domain, depth, before, discovered_key, evidence_value)
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
  requeue(visited, page)
  if page.state == DONE and not has_flag(page, is.repeated) then
    forget_url(visited)
  end
  clear_attempts(visited, page)
  return { 1, sent, unpack(as_pairs(refused)) }
end
