-- Let a leased page wait again, free its site, or set it aside.
--
--   [1]  lease; one that the worker does not have is nothing to end
--   [2]  put_back: it waits again; let_go: its site may let its next page out, the lease stays;
--        bury: what it takes to fetch it cannot be used
--   [3]  put_back: request to wait for in place of its own; '': its own. bury: the reason
--   [4]  put_back: priority to wait at, if that is higher; '': as before

function calls.end_lease(at, is_done)
  local lease = not is_done and find_lease(worker, ARGV[at + 1])
  if not lease then
    return {}
  end
  local id, holds, request = lease[1], lease[3], lease[4]
  local page = page_of(id)
  if ARGV[at + 2] == 'let_go' then
    if holds then
      call('HSET', P .. ':leases:' .. worker, ARGV[at + 1],
        lease_record(id, page.site, false, request, lease[5], lease[6]))
      release(id, page)
      wait_for_rest(id, page)
    end
    return {}
  end
  forget_lease(worker, ARGV[at + 1])
  if ARGV[at + 2] == 'bury' then
    bury(id, site_of(page.site), request, ARGV[at + 3])
    if holds then
      release(id, page)
    end
    wait_for_rest(id, page)
  else
    local priority, own = tonumber(ARGV[at + 4]), lease[5]
    if ARGV[at + 3] ~= '' then
      request, own = ARGV[at + 3], 0
    end
    wait_again(id, page, holds, request, priority or own, priority, own)
  end
  return {}
end
