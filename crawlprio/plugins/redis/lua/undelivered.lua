-- Return messages for this worker to deliver, after taking over all orphans.
--
--   [1]     maximum number of messages
--   result  pairs: "<shard> <run id> <number>", arguments of `deliver.lua`; or "parts <worker> <lease>",
--           number of parts left

function calls.undelivered(at, is_done)
  local own = P .. ':outbox:' .. worker
  local orphans = call('HGETALL', P .. ':outbox:')
  if #orphans > 0 then
    call_in_chunks(orphans, 'HSET', own)
    call('DEL', P .. ':outbox:')
  end
  local messages, most, result = call('HGETALL', own), tonumber(ARGV[at + 1]), {}
  for at = 1, min(#messages, 2 * most), 2 do
    result[#result + 1] = messages[at]
    local name = messages[at]:match('^parts (.+)')
    result[#result + 1] = name and { call('LLEN', P .. ':parts:' .. name) - 1 }
      or cmsgpack.unpack(messages[at + 1])
  end
  return result
end
