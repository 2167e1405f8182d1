-- Delete a delivered message from the outbox.
--
--   [1]  "<shard> <run id> <number>"

function calls.delivered(at, is_done)
  if not is_done then
    local was_there = call('HDEL', P .. ':outbox:' .. worker, ARGV[at + 1])
    if was_there == 0 then
      -- The worker's lease has expired meanwhile, and its messages are orphans.
      was_there = call('HDEL', P .. ':outbox:', ARGV[at + 1])
    end
    counts.outgoing = counts.outgoing - was_there
  end
  return {}
end
