-- Delete a message that was delivered.
--
--   ARGV[3]  "<shard> <run id> <number>"

local is_done, err = begin()
if err then
  return err
end
if not is_done then
  local was_there = call('HDEL', P .. ':outbox:' .. worker, ARGV[3])
  if was_there == 0 then
    -- The worker was taken for dead meanwhile.
    was_there = call('HDEL', P .. ':outbox:', ARGV[3])
  end
  counts.outgoing = counts.outgoing - was_there
end
return finish()
