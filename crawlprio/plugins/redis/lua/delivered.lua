-- Delete a delivered message from the outbox.
--
--   [1]  "<shard> <run id> <number>"

function calls.delivered(at, is_done)
  if not is_done then
    forget_message(ARGV[at + 1])
  end
  return {}
end
