-- Tell the messages that the worker is to deliver; those of workers that are gone are its own from now
-- on.
--
--   [1]     messages at most
--   result  pairs: "<shard> <run id> <number>", and the arguments of `deliver.lua`

function calls.undelivered(at, is_done)
  local own = P .. ':outbox:' .. worker
  local orphans = call('HGETALL', P .. ':outbox:')
  if #orphans > 0 then
    call_in_parts(orphans, 'HSET', own)
    call('DEL', P .. ':outbox:')
  end
  local messages, most, result = call('HGETALL', own), tonumber(ARGV[at + 1]), {}
  for at = 1, min(#messages, 2 * most), 2 do
    result[#result + 1] = messages[at]
    result[#result + 1] = cmsgpack.unpack(messages[at + 1])
  end
  return result
end
