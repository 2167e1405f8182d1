-- Learn from a visit and end its lease: one round trip for a page and all its links.
--
--   ARGV[3]     lease. One that the worker does not have (any more) makes the visit void: its page
--               waits, or is another's, and will be fetched again.
--   ARGV[4]     1: the links were added as entries before, 0: new ones wait from now on
--   ARGV[5]     what the stream is to say of the visit, as JSON
--   ARGV[6]...  links, as `read_links` has them, those to pages of this shard; then, where there are
--               several shards, messages: their number, and of each the shard, targets among its
--               links that are followed or were added before, such links, arguments; its links
--   result      1, or 0 for a void visit, or 2 for one that was observed before; messages, in the order
--               given: the first seven arguments of `deliver.lua` of each; pairs: the name of a budget,
--               how many links it refused

local is_done, err = begin()
if err then
  return err
end
if is_done then
  return finish(2, {})
end
local lease = find_lease(worker, ARGV[3])
if lease == nil then
  return finish(0, {})
end
local visited, holds = lease[1], lease[3]
forget_lease(worker, ARGV[3])
local page = page_of(visited)
local links = read_links(6)
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
local n_more, at = 0, links.after
local n_messages, messages, tokens = tonumber(ARGV[at] or 0), {}, {}
for message = 1, n_messages do
  local n_arguments = tonumber(ARGV[at + 4])
  messages[message] = {
    shard = ARGV[at + 1], n_links = ARGV[at + 3], first = at + 5, last = at + 4 + n_arguments,
  }
  n_more = n_more + tonumber(ARGV[at + 2])
  at = at + 4 + n_arguments
end
local before, shown, told = learn(visited, targets, numbers, n_more)
local sent = {}
if n_messages > 0 then
  local run_id = call('HGET', P .. ':config', 'run_id')
  local sender, stored = exact(config.shard) .. ' ' .. run_id, {}
  for _, message in ipairs(messages) do
    local channel = message.shard .. ' ' .. run_id
    local number = call('HINCRBY', P .. ':numbers', channel, 1)
    local arguments = {
      sender, exact(number), exact(depth), message.n_links, exact(before), exact(shown),
      told and exact(told) or '',
    }
    sent[#sent + 1] = { unpack(arguments) }
    for from = message.first, message.last do
      arguments[#arguments + 1] = ARGV[from]
    end
    stored[#stored + 1] = channel .. ' ' .. exact(number)
    stored[#stored + 1] = cmsgpack.pack(arguments)
    tokens[#tokens + 1] = { tonumber(message.shard), sender .. ' ' .. exact(number) }
  end
  counts.outgoing = counts.outgoing + n_messages
  call_in_parts(stored, 'HSET', P .. ':outbox:' .. worker)
end
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
    'p', visited, 't', #ids > 0 and cjson.encode(ids) or '[]', 'v', ARGV[5],
  }) do
    fields[#fields + 1] = field
  end
  if #tokens > 0 then
    fields[#fields + 1] = 'm'
    fields[#fields + 1] = cjson.encode(tokens)
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
local refusals = {}
for reason, count in pairs(refused) do
  refusals[#refusals + 1] = reason
  refusals[#refusals + 1] = count
end
return finish(1, sent, unpack(refusals))
