-- End a lease, or release its site early.
--
--   [1]  lease; ignored if the worker does not have it
--   [2]  put_back: queue the page again; release_site: let the site's next page leave, but keep the
--        lease; bury: move the entry to the dead letters
--   [3]  put_back: request to replace the leased one; '': keep it. bury: the reason
--   [4]  put_back: raise the page to this priority; '': do not

function calls.end_lease(at, is_done)
  local lease = not is_done and find_lease(worker, ARGV[at + 1])
  if not lease then
    return {}
  end
  local id, holds, request = lease[1], lease[3], lease[4]
  local page = page_of(id)
  if ARGV[at + 2] == 'release_site' then
    if holds then
      call('HSET', P .. ':leases:' .. worker, ARGV[at + 1],
        lease_record(id, page.site, false, request, lease[5], lease[6]))
      release(id, page)
      requeue(id, page)
    end
    return {}
  end
  forget_lease(worker, ARGV[at + 1])
  if ARGV[at + 2] == 'bury' then
    bury(id, site_of(page.site), request, ARGV[at + 3])
    if holds then
      release(id, page)
    end
    requeue(id, page)
  else
    local priority, own = tonumber(ARGV[at + 4]), lease[5]
    if ARGV[at + 3] ~= '' then
      request, own = ARGV[at + 3], 0
    end
    requeue_leased(id, page, holds, request, priority or own, priority, own)
  end
  return {}
end
