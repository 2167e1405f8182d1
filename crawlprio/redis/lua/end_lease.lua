-- Let a leased page wait again, free its site, or set it aside.
--
--   ARGV[3]  lease; one that the worker does not have is nothing to end
--   ARGV[4]  put_back: it waits again; let_go: its site may let its next page out, the lease stays;
--            bury: what it takes to fetch it cannot be used
--   ARGV[5]  put_back: request to wait for in place of its own; '': its own. bury: the reason
--   ARGV[6]  put_back: priority to wait at, if that is higher; '': as before

local is_done, err = begin()
if err then
  return err
end
local lease = not is_done and find_lease(worker, ARGV[3])
if not lease then
  return finish()
end
local id, holds, request = lease[1], lease[3], lease[4]
local page = page_of(id)
if ARGV[4] == 'let_go' then
  if holds then
    call('HSET', P .. ':leases:' .. worker, ARGV[3],
      lease_record(id, page.site, false, request, lease[5], lease[6]))
    release(id, page)
    wait_for_rest(id, page)
  end
  return finish()
end
forget_lease(worker, ARGV[3])
if ARGV[4] == 'bury' then
  bury(id, site_of(page.site), request, ARGV[5])
  if holds then
    release(id, page)
  end
  wait_for_rest(id, page)
else
  local priority, with = tonumber(ARGV[6]), lease[5]
  if ARGV[5] ~= '' then
    request, with = ARGV[5], 0
  end
  wait_again(id, page, holds, request, priority or with, priority)
end
return finish()
