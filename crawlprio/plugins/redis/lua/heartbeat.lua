-- A worker's heartbeat: report its leases, or leave. Idempotent, so it is done on every call; ARGV[2] is
-- the number of the last call that the worker has an answer for.
--
--   ARGV[4]     renew: stay alive; leave: end all its leases and queue their pages again
--   ARGV[5]     name of the worker, for people
--   ARGV[6]     run id of the server, as known to the worker
--   ARGV[7]     fetches that it makes at once
--   ARGV[8]...  its leases. Other leases of this worker are ended: their answers were lost.
--   result      those of its leases that the server does not have

local known, err = begin(1, true)
if not known then
  return err
end
call('HSETNX', P .. ':worker:' .. worker, 'since', exact(now))
call('HSET', P .. ':worker:' .. worker, 'name', ARGV[5])
set_fetches(worker, ARGV[4] == 'leave' and '0' or ARGV[7])
local run_id = call('HGET', P .. ':config', 'run_id')
if run_id ~= ARGV[6] then
  -- The server restarted and may have lost its last second, so let all sites rest.
  if run_id then
    counts.rest_until = now + counts.max_delay + 1
  end
  call('HSET', P .. ':config', 'run_id', ARGV[6])
end
local has = {}
for at = 8, #ARGV do
  has[ARGV[at]] = true
end
local lost = {}
for _, lease in ipairs(call('HKEYS', P .. ':leases:' .. worker)) do
  if not has[lease] then
    lost[#lost + 1] = lease
  end
  has[lease] = nil
end
take_over(worker, lost, false)
if ARGV[4] == 'leave' then
  orphan_messages(worker)
  call('ZREM', P .. ':workers', worker)
  call('DEL', P .. ':worker:' .. worker, P .. ':leases:' .. worker)
end
local gone = {}
for lease in pairs(has) do
  gone[#gone + 1] = lease
end
return finish(unpack(gone))
