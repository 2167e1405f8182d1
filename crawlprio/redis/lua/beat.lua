-- Say that the worker lives, and what it still has; or that it leaves. Unlike the others it is done
-- each time it is called; ARGV[2] is the number of the last call whose answer the worker has.
--
--   ARGV[3]     beat; leave: all its leases end, and their pages wait again
--   ARGV[4]     name of the worker, for people
--   ARGV[5]     server's run id, as the worker knows it
--   ARGV[6]...  its leases. Others that the server has for it are put back: their answers were lost.
--   result      those of its leases that the server does not have

local known, err = begin(1, true)
if not known then
  return err
end
call('HSETNX', P .. ':worker:' .. worker, 'since', exact(now))
call('HSET', P .. ':worker:' .. worker, 'name', ARGV[4])
local run_id = call('HGET', P .. ':config', 'run_id')
if run_id ~= ARGV[5] then
  -- The server has restarted, and may have lost the last second: sites rest for what it may not know.
  if run_id then
    counts.rest_until = now + counts.max_delay + 1
  end
  call('HSET', P .. ':config', 'run_id', ARGV[5])
end
local has = {}
for at = 6, #ARGV do
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
if ARGV[3] == 'leave' then
  leave_messages(worker)
  call('ZREM', P .. ':workers', worker)
  call('DEL', P .. ':worker:' .. worker, P .. ':leases:' .. worker)
end
local gone = {}
for lease in pairs(has) do
  gone[#gone + 1] = lease
end
return finish(unpack(gone))
