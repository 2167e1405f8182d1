-- Take in the links of a visit in another shard to pages of this one: a message, which counts once
-- however often it is delivered.
--
--   ARGV[3,4]   sender: its shard and run id; number of the message among those of this sender here,
--               from 1
--   ARGV[5]     depth of new pages
--   ARGV[6]     links that are followed or were added before; they come before all others
--   ARGV[7..9]  key of the visited page before, first key of what it shows, its evidence ('': none), as
--               `learn` told them
--   ARGV[10]... links, as `read_links` has them
--   result      pairs: the name of a budget, how many links it refused

local is_done, err = begin()
if err then
  return err
end
if is_done then
  return finish()
end
local sender, number = ARGV[3], tonumber(ARGV[4])
local early = P .. ':inbox:' .. sender
local mark = tonumber(call('HGET', P .. ':inbox', sender) or 0)
if number <= mark or call('SISMEMBER', early, ARGV[4]) == 1 then
  return finish()
end
if number > mark + 1 then
  call('SADD', early, ARGV[4])
else
  mark = number
  while call('SREM', early, exact(mark + 1)) == 1 do
    mark = mark + 1
  end
  call('HSET', P .. ':inbox', sender, exact(mark))
end
local links = read_links(10)
local depth, n_pages, n_counted_links = tonumber(ARGV[5]), counts.pages, tonumber(ARGV[6])
local refused, without_room = find_or_add(links, depth)
local targets, numbers, is_target, n_counted = {}, {}, {}, 0
for link = 1, links.n do
  local id = links.ids[link]
  if id and not is_target[id] then
    targets[#targets + 1] = id
    numbers[#targets] = links.numbers[link]
    is_target[id] = true
    n_counted = link <= n_counted_links and #targets or n_counted
  end
end
learn_from_message(targets, numbers, n_counted, tonumber(ARGV[7]), tonumber(ARGV[8]),
  tonumber(ARGV[9]))
counts.links = counts.links + counts.pages - n_pages
if config.records == 1 then
  local fields, ids = new_pages(links, depth), {}
  for link = 1, links.n do
    ids[link] = links.ids[link] or -1
  end
  for at, link in ipairs(without_room) do
    without_room[at] = { link - 1, url_of_link(links, link) }
  end
  for _, field in ipairs({
    'b', sender .. ' ' .. ARGV[4], 't', #ids > 0 and cjson.encode(ids) or '[]',
    'o', #without_room > 0 and cjson.encode(without_room) or '[]',
  }) do
    fields[#fields + 1] = field
  end
  record(fields)
end
local refusals = {}
for reason, count in pairs(refused) do
  refusals[#refusals + 1] = reason
  refusals[#refusals + 1] = count
end
return finish(unpack(refusals))
