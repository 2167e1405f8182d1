-- Keep the delays of sites by the server's clock: note the fetches of leased pages, and give permission
-- for other fetches (robots.txt, media).
--
--   [1]     action
--     started      a fetch has started
--     not_fetched  a leased page is not fetched, so its site need not rest for it
--     ended        a fetch has ended; [4] its seconds; [5] 1: the site refused (429, 503), 0: any other
--                  response, '': none; [6] Retry-After in seconds, '': none; [7] seconds of delay that
--                  the fetch calls for
--     delay        [4] seconds of the site's own delay from now on
--     crawl_delay  [4] seconds of Crawl-delay to obey
--     hold         ask for permission for a fetch without a page
--     unhold       return a permission; [4] its lease
--   [2]     host
--   [3]     1: the fetch has a leased page
--   result  hold: 1 if granted, as a lease of its own, or 0; the time at which to ask again.
--           ended: the time at which the site is ready

function calls.clock(at, is_done)
  local action, handed_out = ARGV[at + 1], ARGV[at + 3] == '1'
  if is_done then
    if action == 'hold' then
      return { find_lease(worker, exact(seq * 1000)) and 1 or 0, exact(now) }
    end
    return { exact(now) }
  end
  local site = site_of_host(ARGV[at + 2])
  site.dirty = true

  local function next_start()
    return max(site.started_at + delay_of(site, 0), site.paused_until)
  end

  local function delay_until(time)
    site.ready_at = max(site.ready_at, time)
    touch(site)
  end

  local result = {}
  if action == 'started' then
    site.unstarted = site.unstarted - ((handed_out and site.unstarted > 0) and 1 or 0)
    site.started_at = now
    if limit_of(site) > 1 then
      delay_until(next_start())
    end
  elseif action == 'not_fetched' then
    site.unstarted = max(site.unstarted - 1, 0)
    if site.unstarted == 0 and limit_of(site) > 1 then
      site.ready_at = next_start()
      touch(site)
    end
  elseif action == 'ended' then
    local elapsed, refuses, is_answered = tonumber(ARGV[at + 4]), ARGV[at + 5] == '1', ARGV[at + 5] ~= ''
    local pause = delay_of(site, tonumber(ARGV[at + 7]))
    site.ended_at = now
    if refuses then
      -- Fetches that started before the first refusal count as the same refusal.
      if now - elapsed >= site.refused_at then
        site.refusals, site.refused_at = site.refusals + 1, now
      end
      local asked = tonumber(ARGV[at + 6]) or max(pause, 1) * 2 ^ min(site.refusals, 30)
      pause = max(pause, min(asked, config.max_back_off))
    elseif is_answered then
      site.refusals = 0
    end
    if limit_of(site) == 1 then
      if handed_out then
        site.unstarted = max(site.unstarted - 1, 0)
      end
      site.visited = site.visited + 1
      if refuses or not handed_out or site.visited >= config.pages_per_visit or site.waiting == 0 then
        site.visited = 0
        site.ready_at = max(site.ready_at, now + pause)
      end
      touch(site)
    elseif pause > delay_of(site, 0) then
      site.paused_until = max(site.paused_until, now + pause)
      delay_until(site.paused_until)
    end
    result = { exact(site.ready_at) }
  elseif action == 'delay' then
    site.own_delay = tonumber(ARGV[at + 4])
    if limit_of(site) > 1 then
      delay_until(next_start())
    end
  elseif action == 'crawl_delay' then
    site.crawl_delay = tonumber(ARGV[at + 4])
    delay_until((site.ended_at > -huge and site.ended_at or now) + delay_of(site, 0))
  elseif action == 'hold' then
    local may = site.leased < limit_of(site) and site.ready_at <= now and now >= counts.rest_until
    if may then
      site.leased = site.leased + 1
      counts.leased = counts.leased + 1
      call('HSET', P .. ':leases:' .. worker, exact(seq * 1000),
        lease_record(-1, site.id, true, '', 0, now))
      if limit_of(site) > 1 then
        site.ready_at = max(site.ready_at, now + delay_of(site, 0))
      end
      touch(site)
    end
    local retry_at = max(site.ready_at, counts.rest_until, now + 0.05)
    result = { may and 1 or 0, exact(min(retry_at, now + 1)) }
  elseif action == 'unhold' then
    local lease = ARGV[at + 4]
    if find_lease(worker, lease) then
      forget_lease(worker, lease)
      site.leased = site.leased - 1
      touch(site)
    end
  end
  return result
end
