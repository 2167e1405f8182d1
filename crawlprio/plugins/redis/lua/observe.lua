-- Learn from a visit and end its lease, in one call for a page and its links.
--
-- A call has at most LINKS_PER_CALL followed links (`wire.py`), so that no call blocks the server for
-- long. The others stay in the outbox: those to pages of this shard as parts, which `more.lua` takes
-- one by one, and those to other shards as messages. A visit thus counts exactly once whoever dies.
--
--   [1]     lease. If the worker no longer has it, the visit is ignored: its page is waiting again or
--           leased to another worker.
--   [2]     the visit, as JSON for the stream
--   [3]     1: the page was got; 2: it redirected to another; 0: neither
--   [4]     its registered domain
--   [5]...  links to pages of this shard, see `read_piece`; number of further distinct targets in the
--           parts; number of parts; each part, as msgpack; number of messages; for each message the
--           shard, the distinct targets of its followed or already queued links, and its links, as msgpack
--   result  1; 0: ignored; 2: a retry. Then the first seven arguments of `deliver.lua` for each message;
--           then pairs: name of a budget, number of links that it refused

-- Put messages into the worker's outbox; return the first arguments of each, and its name.
local function send(at, n_messages, domain, depth, before, discovered_key, evidence)
  local run_id = call('HGET', P .. ':config', 'run_id')
  local sender, stored, sent, tokens = exact(config.shard) .. ' ' .. run_id, {}, {}, {}
  for message = 1, n_messages do
    local shard = ARGV[at]
    local channel = shard .. ' ' .. run_id
    local number = exact(call('HINCRBY', P .. ':numbers', channel, 1))
    local arguments = {
      sender, number, domain, exact(depth), exact(before), exact(discovered_key),
      evidence and exact(evidence) or '',
    }
    sent[message] = { unpack(arguments) }
    arguments[#arguments + 1] = ARGV[at + 2]
    stored[#stored + 1] = channel .. ' ' .. number
    stored[#stored + 1] = cmsgpack.pack(arguments)
    tokens[message] = { tonumber(shard), sender .. ' ' .. number }
    at = at + 3
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
  local visited, holds, domain = lease[1], lease[3], ARGV[at + 4]
  forget_lease(worker, ARGV[at + 1])
  local page = page_of(visited)
  local links = read_piece(ARGV, at + 5)
  local n_more, n_parts = tonumber(ARGV[links.after]), tonumber(ARGV[links.after + 1])
  local messages_at = links.after + 2 + n_parts
  local n_messages, n_elsewhere = tonumber(ARGV[messages_at]), 0
  for message = 1, n_messages do
    n_elsewhere = n_elsewhere + tonumber(ARGV[messages_at + 3 * message - 1])
  end
  local depth, n_pages = page.depth + 1, counts.pages
  local source = { domain = domain, n_new = 0 }
  local refused, without_room = find_or_add(links, depth, source)
  if ARGV[at + 3] ~= '0' then
    counts.fetched = counts.fetched + 1
  end
  if ARGV[at + 3] == '1' then
    note_fetched(visited, page, domain)
  end
  local targets, link_values = targets_of(links, visited)
  local before, discovered_key, evidence = learn(visited, targets, link_values, n_more + n_elsewhere)
  local sent, tokens = send(messages_at + 1, n_messages, domain, depth, before, discovered_key, evidence)
  counts.links = counts.links + counts.pages - n_pages
  local visit = begin_visit(visited, depth, ARGV[at + 2], source, before, discovered_key, evidence)
  visit.messages = #tokens > 0 and cjson.encode(tokens) or ''
  local fields = note_links(visit, links, without_room)
  if n_parts == 0 then
    record_visit(visit, fields)
  else
    record(fields)
    keep_parts(visit, worker .. ' ' .. ARGV[at + 1], links.after + 2, n_parts)
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
