-- Requests that wait, leases, and how a call begins and ends. It follows `queue.lua`.

-- Requests that wait for a page

local function requests_of(id)
  if has_flag(page_of(id), HAS_REQUESTS) then
    return cmsgpack.unpack(call('HGET', P .. ':requests', id))
  end
  return {}
end

local function keep_requests(id, requests)
  set_flag(page_of(id), HAS_REQUESTS, #requests > 0)
  if #requests == 0 then
    call('HDEL', P .. ':requests', id)
  else
    call('HSET', P .. ':requests', id, cmsgpack.pack(requests))
  end
end

-- Keep one more request of a page; '' stands for a plain GET. Put back, it may wait at another
-- priority than its own, once.
local function add_request(id, priority, request, own)
  local requests = requests_of(id)
  counts.number = counts.number + 1
  counts.waiting = counts.waiting + (#requests > 0 and 1 or 0)
  requests[#requests + 1] = { priority, counts.number, request, own ~= priority and own or nil }
  keep_requests(id, requests)
end

-- Where the first request of a page stands: larger priority first, then older.
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

-- Take the first request of a page, and its own priority; '' where there is none.
local function pop_request(id)
  if not has_flag(page_of(id), HAS_REQUESTS) then
    return '', 0
  end
  local requests = requests_of(id)
  local at = first_request(requests)
  local request = table.remove(requests, at)
  counts.waiting = counts.waiting - (#requests > 0 and 1 or 0)
  keep_requests(id, requests)
  return request[3], request[4] or request[1]
end

-- Queue a page again if more requests wait for it.
local function wait_for_rest(id, page)
  if page.state ~= WAITING and has_flag(page, HAS_REQUESTS) then
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

local function find_lease(of_worker, lease)
  local packed = call('HGET', P .. ':leases:' .. of_worker, lease)
  return packed and cmsgpack.unpack(packed) or nil
end

local function forget_lease(of_worker, lease)
  call('HDEL', P .. ':leases:' .. of_worker, lease)
  counts.leased = counts.leased - 1
end

-- End a page's hold on its site.
local function release(id, page)
  page.leases, page.dirty = page.leases - 1, true
  if page.state == LEASED and page.leases == 0 then
    page.state = DONE
  end
  local site = site_of(page.site)
  site.leased = site.leased - 1
  touch(site)
end

-- Forget how often workers ended with a page.
local function clear_attempts(id, page)
  if has_flag(page, BLAMED) then
    set_flag(page, BLAMED, false)
    call('HDEL', P .. ':attempts', id)
  end
end

-- Let the page of a lease that has ended wait again.
--   request   '' is a plain GET
--   with      priority of the request among those of its page
--   priority  at which the page waits if that is higher; nil: as before
--   own       priority of the request, if that is another one
local function wait_again(id, page, holds, request, with, priority, own)
  if holds then
    release(id, page)
  end
  if page.state ~= WAITING then
    push(id, page, page.tier, key_to_wait(id, page))
  end
  if request ~= '' then
    add_request(id, with, request, own)
  end
  if priority then
    queue(id, page, priority)
  end
end

-- Set an entry aside: it is neither run nor lost.
local function bury(id, site, request, reason)
  call('RPUSH', P .. ':dead', cjson.encode({
    page = id, url = url_of(id, site.host), reason = reason, request = request, at = now,
  }))
  clear_attempts(id, page_of(id))
  counts.dead = counts.dead + 1
end

-- Put back leases of a worker; `blames`: it died with them.
local function take_over(of_worker, leases, blames)
  for _, lease in ipairs(leases) do
    local record = find_lease(of_worker, lease)
    if record then
      local id, site = record[1], site_of(record[2])
      forget_lease(of_worker, lease)
      counts.taken_over = counts.taken_over + (blames and 1 or 0)
      -- Its fetch may have ended this moment.
      site.ready_at = max(site.ready_at, now + delay_of(site, 0))
      touch(site)
      if id < 0 then
        site.leased = site.leased - 1
      else
        local page = page_of(id)
        set_flag(page, BLAMED, blames or has_flag(page, BLAMED))
        if blames and call('HINCRBY', P .. ':attempts', id, 1) >= config.max_attempts then
          bury(id, site, record[4], 'its worker ended ' .. config.max_attempts .. ' times')
          if record[3] then
            release(id, page)
          end
        else
          wait_again(id, page, record[3], record[4], record[5], nil)
        end
      end
    end
  end
end

-- Messages to other shards

-- Leave the messages of a worker that is gone to whoever asks for them.
local function leave_messages(of_worker)
  if counts.outgoing > 0 then
    local messages = call('HGETALL', P .. ':outbox:' .. of_worker)
    if #messages > 0 then
      call_in_parts(messages, 'HSET', P .. ':outbox:')
      call('DEL', P .. ':outbox:' .. of_worker)
    end
  end
end

-- Tier and rank of the page that leaves next; '' where none is ready.
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

local calls = {} -- by name; each takes what `calls.lua` says

-- Note that the worker lives; return the number of the last call done before, or nil and an error
-- that ends the script: there is no crawl, or a call is missing before these. `beat` may leave calls
-- out: a server that has lost its last second says so by the error, and the worker begins again with
-- it.
local function begin(n_calls, is_beat)
  if config.limit == nil then
    return nil, redis.error_reply('NOCRAWL there is no crawl under ' .. P)
  end
  local key = P .. ':worker:' .. worker
  local known = tonumber(call('HGET', key, 'seq') or -1)
  if known >= 0 and seq > known + 1 and not is_beat then
    return nil, redis.error_reply('GAP call ' .. exact(known) .. ' was the last')
  end
  call('ZADD', P .. ':workers', exact(now + config.lease_seconds), worker)
  local last = seq + n_calls - 1
  if last > known then
    call('HSET', key, 'seq', exact(last))
  end
  return known
end

-- Write back what has changed, and say how things stand.
local function finish(...)
  save_all()
  local ready_at = huge
  if counts.ready > 0 then
    ready_at = 0
  else
    local soonest = call('ZRANGE', P .. ':delayed', 0, 0, 'WITHSCORES')
    ready_at = tonumber(soonest[2]) or huge
  end
  if ready_at < huge then
    ready_at = max(ready_at, counts.rest_until, ask_again_at)
  end
  local own = call('HLEN', P .. ':leases:' .. worker)
  local n_orphans, n_changes, tier, rank = 0, 0, '', ''
  if config.shards > 1 then
    n_orphans = counts.outgoing > 0 and call('HLEN', P .. ':outbox:') or 0
    n_changes = exact(counts.changes)
    tier, rank = head_of_order()
  end
  return {
    exact(server_now), counts.waiting, counts.leased, counts.leased - own + counts.outgoing,
    exact(ready_at), counts.links, n_orphans, n_changes, tier, rank, ...,
  }
end
