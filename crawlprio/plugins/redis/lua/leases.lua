-- Waiting requests, leases, and the begin and end of a call. Follows `shares.lua`.

-- Waiting requests

local function requests_of(id)
  if has_flag(page_of(id), is.with_requests) then
    return cmsgpack.unpack(call('HGET', P .. ':requests', id))
  end
  return {}
end

local function save_requests(id, requests)
  set_flag(page_of(id), is.with_requests, #requests > 0)
  if #requests == 0 then
    call('HDEL', P .. ':requests', id)
  else
    call('HSET', P .. ':requests', id, cmsgpack.pack(requests))
  end
end

-- Add a request to a page; '' is a plain GET. A request that was put back may wait once at another
-- priority than its own.
local function add_request(id, priority, request, own_priority)
  local requests = requests_of(id)
  counts.number = counts.number + 1
  counts.waiting = counts.waiting + (#requests > 0 and 1 or 0)
  local own = own_priority ~= priority and own_priority or nil
  requests[#requests + 1] = { priority, counts.number, request, own }
  save_requests(id, requests)
end

-- Return the position of a page's first request: larger priority first, then older.
local function first_request(requests)
  local first
  for at, request in ipairs(requests) do
    local best = requests[first]
    if best == nil or request[1] > best[1] or (request[1] == best[1] and request[2] < best[2]) then
      first = at
    end
  end
  return first
end

-- Take a page's first request; return it with its own priority, or '' if there is none.
local function pop_request(id)
  if not has_flag(page_of(id), is.with_requests) then
    return '', 0
  end
  local requests = requests_of(id)
  local at = first_request(requests)
  local request = table.remove(requests, at)
  counts.waiting = counts.waiting - (#requests > 0 and 1 or 0)
  save_requests(id, requests)
  return request[3], request[4] or request[1]
end

-- Queue a page again if it has more requests.
local function requeue(id, page)
  if page.state ~= WAITING and has_flag(page, is.with_requests) then
    local requests = requests_of(id)
    local at = first_request(requests)
    if page.leases < 255 then
      queue(id, page, requests[at][1])
    end
  end
end

-- Leases

local function lease_record(page, site, holds, request, priority, since)
  return cmsgpack.pack({ page, site, holds, request, priority, since })
end

local function find_lease(owner, lease)
  local packed = call('HGET', P .. ':leases:' .. owner, lease)
  return packed and cmsgpack.unpack(packed) or nil
end

local function forget_lease(owner, lease)
  call('HDEL', P .. ':leases:' .. owner, lease)
  counts.leased = counts.leased - 1
end

-- Release the site that a page holds.
local function release(id, page)
  page.leases, page.dirty = page.leases - 1, true
  if page.state == LEASED and page.leases == 0 then
    page.state = DONE
  end
  local site = site_of(page.site)
  site.leased = site.leased - 1
  touch(site)
  domains.note_ended(site.domain)
end

-- Reset a page's count of workers that died holding it.
local function clear_attempts(id, page)
  if has_flag(page, is.with_attempts) then
    set_flag(page, is.with_attempts, false)
    call('HDEL', P .. ':attempts', id)
  end
end

-- Queue the page of an ended lease again.
--   request       '' is a plain GET
--   rank          priority of the request among those of the page
--   priority      raise the page to this priority; nil: do not
--   own_priority  the request's own priority, if different
local function requeue_leased(id, page, holds, request, rank, priority, own_priority)
  if holds then
    release(id, page)
  end
  if page.state ~= WAITING then
    push(id, page, page.tier, queueing_key(id, page))
  end
  if request ~= '' then
    add_request(id, rank, request, own_priority)
  end
  if priority then
    queue(id, page, priority)
  end
end

-- Move an entry to the dead letters.
local function bury(id, site, request, reason)
  call('RPUSH', P .. ':dead', cjson.encode({
    page = id, url = url_of(id, site.host), reason = reason, request = request, at = now,
  }))
  clear_attempts(id, page_of(id))
  counts.dead = counts.dead + 1
end

-- Queue the pages of a worker's leases again; `has_died`: count an attempt for each.
local function take_over(owner, leases, has_died)
  for _, lease in ipairs(leases) do
    local record = find_lease(owner, lease)
    if record then
      local id, site = record[1], site_of(record[2])
      forget_lease(owner, lease)
      counts.taken_over = counts.taken_over + (has_died and 1 or 0)
      -- Its fetch may have ended just now.
      site.ready_at = max(site.ready_at, now + delay_of(site, 0))
      touch(site)
      if id < 0 then
        site.leased = site.leased - 1
      else
        local page = page_of(id)
        set_flag(page, is.with_attempts, has_died or has_flag(page, is.with_attempts))
        if has_died and call('HINCRBY', P .. ':attempts', id, 1) >= config.max_attempts then
          bury(id, site, record[4], 'its worker died ' .. config.max_attempts .. ' times')
          if record[3] then
            release(id, page)
          end
        else
          requeue_leased(id, page, record[3], record[4], record[5], nil)
        end
      end
    end
  end
end

-- Note how many fetches a worker makes at once; '0': it has left.
local function set_fetches(owner, fetches)
  local before = call('HGET', P .. ':worker:' .. owner, 'fetches') or '0'
  if fetches ~= before then
    counts.fetches = counts.fetches + tonumber(fetches) - tonumber(before)
    call('HSET', P .. ':worker:' .. owner, 'fetches', fetches)
  end
end

-- Messages to other shards

-- Make a worker's undelivered messages orphans, for any worker to deliver.
local function orphan_messages(owner)
  if counts.outgoing > 0 then
    local messages = call('HGETALL', P .. ':outbox:' .. owner)
    if #messages > 0 then
      call_in_chunks(messages, 'HSET', P .. ':outbox:')
      call('DEL', P .. ':outbox:' .. owner)
    end
  end
end

-- Delete a message of this worker from its outbox.
local function forget_message(name)
  local was_there = call('HDEL', P .. ':outbox:' .. worker, name)
  if was_there == 0 then
    -- The worker's lease has expired meanwhile, and its messages are orphans.
    was_there = call('HDEL', P .. ':outbox:', name)
  end
  counts.outgoing = counts.outgoing - was_there
end

-- Return tier and rank of the page that leaves next, or ''.
local function head_of_order()
  if counts.ready > 0 then
    for _, tier in ipairs(call('ZRANGE', P .. ':tiers', 0, -1)) do
      local found = call('ZRANGE', P .. ':ready:' .. tier, 0, 0, 'WITHSCORES')
      if #found > 0 then
        return tier, exact(-tonumber(found[2]))
      end
    end
  end
  return '', ''
end

-- Calls

local calls = {} -- by name; see `calls.lua`

local TOLERANCE = 0.1 -- seconds by which the server's clock may differ from a worker's

-- Correct the time if the server's clock was set since the worker's last answer. The worker sends the
-- `now` of that answer, and at least and at most how many seconds ago that was; '' after its start. Time
-- lost between sending a call and running it is not counted: delays and leases only get longer.
local function keep_time(known)
  local before, least, most = known:match('(%S+) (%S+) (%S+)')
  if before then
    local passed = now - before
    local believed = passed
    if passed > most + TOLERANCE then
      believed = tonumber(most)
    elseif passed < least - TOLERANCE then
      believed = tonumber(least)
    end
    counts.offset = counts.offset + believed - passed
    now = now + believed - passed
  end
end

-- Renew the worker's lease. Return the number of its last call done before; or nil and an error to
-- return from the script: the crawl is missing, a call was skipped, or the lease has expired. After
-- the last two the worker starts again from a heartbeat, which says which of its leases are lost.
local function begin(n_calls, is_heartbeat)
  if config.limit == nil then
    return nil, redis.error_reply('NOCRAWL no crawl under ' .. P)
  end
  keep_time(ARGV[3])
  local key = P .. ':worker:' .. worker
  local known = tonumber(call('HGET', key, 'seq') or -1)
  if not is_heartbeat then
    if tonumber(call('ZSCORE', P .. ':workers', worker) or -1) < now then
      return nil, redis.error_reply('LAPSED the lease of this worker has expired')
    elseif seq > known + 1 then
      return nil, redis.error_reply('GAP the last call was ' .. exact(known))
    end
  end
  call('ZADD', P .. ':workers', exact(now + config.lease_seconds), worker)
  local last = seq + n_calls - 1
  if last > known then
    call('HSET', key, 'seq', exact(last))
  end
  return known
end

-- Write all changes and return the state of the shard.
local function finish(...)
  domains.save()
  save_all()
  local ready_at = huge
  if counts.ready > 0 or domains.has_sites_to_return() then
    ready_at = 0
  else
    local soonest = call('ZRANGE', P .. ':delayed', 0, 0, 'WITHSCORES')
    ready_at = tonumber(soonest[2]) or huge
  end
  if ready_at < huge then
    ready_at = max(ready_at, counts.rest_until, ask_again_at)
  end
  local own = call('HLEN', P .. ':leases:' .. worker)
  local n_orphans = counts.outgoing > 0 and call('HLEN', P .. ':outbox:') or 0
  local n_changes, tier, rank = 0, '', ''
  if config.shards > 1 then
    n_changes = exact(counts.changes)
    tier, rank = head_of_order()
  end
  return {
    exact(now), counts.waiting, counts.leased, counts.leased - own + counts.outgoing,
    exact(ready_at), counts.links, counts.pages, n_known_hosts(), n_orphans, n_changes, tier, rank,
    exact(counts.offset), ...,
  }
end
