-- The parts of visits with many links. Follows `learning.lua` in the script `calls`.
--
-- Until all of them are done, a visit is the list `:parts:<worker> <lease>`: what `begin_visit` returns,
-- as msgpack, then its parts. The outbox names it `parts <worker> <lease>`. The last part records it.

-- Return what the parts of a visit need to know; its fields are those of msgpack. A loaded visit also
-- has `targets`, its targets as JSON, and `room`, which makes it ignore budgets.
local function begin_visit(page, depth, json, source, before, discovered_key, evidence)
  return {
    page = page, depth = depth, json = json, source = source, before = before,
    discovered_key = discovered_key, evidence = evidence,
    n_followed = 0, followed = '', others = '', refused = '', messages = '',
  }
end

-- Add links to those of a visit; return the stream fields of the pages that they discovered.
local function note_links(visit, links, without_room)
  if config.records ~= 1 then
    return {}
  elseif visit.targets then
    return new_pages(links, visit.depth)
  end
  local n_followed = links.n_followed
  visit.refused = join(visit.refused, refused_as_elements(links, without_room, visit.n_followed))
  visit.followed = join(visit.followed, ids_as_elements(links, 1, n_followed))
  visit.others = join(visit.others, ids_as_elements(links, n_followed + 1, links.n))
  visit.n_followed = visit.n_followed + n_followed
  return new_pages(links, visit.depth)
end

-- Record a visit, with the fields of the pages that its last links discovered.
local function record_visit(visit, fields)
  local targets = visit.targets or '[' .. join(visit.followed, visit.others) .. ']'
  for _, field in ipairs({ 'p', visit.page, 't', targets, 'v', visit.json }) do
    fields[#fields + 1] = field
  end
  for field, text in pairs({ m = visit.messages, o = visit.refused }) do
    if text ~= '' then
      fields[#fields + 1] = field
      fields[#fields + 1] = field == 'm' and text or '[' .. text .. ']'
    end
  end
  record(fields)
end

local function parts_key(name)
  return P .. ':parts:' .. name
end

local function keep_parts(visit, name, at, n_parts)
  call('RPUSH', parts_key(name), cmsgpack.pack(visit), unpack(ARGV, at, at + n_parts - 1))
  call('HSET', P .. ':outbox:' .. worker, 'parts ' .. name, n_parts)
  counts.outgoing = counts.outgoing + 1
end
