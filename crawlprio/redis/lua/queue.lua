-- The two-level queue: pages that wait by site, and sites. It follows `common.lua`.

local function waiting_key(site, tier)
  return P .. ':w:' .. site.id .. (tier == 0 and '' or ':' .. exact(tier))
end

-- Pages that come to wait in tier 0, or change their keys there: site -> scores and members.
local entering = {}

local function save_entering(site)
  local members = entering[site.id]
  if members then
    entering[site.id] = nil
    call_in_parts(members, 'ZADD', P .. ':w:' .. site.id)
  end
end

local function save_all_entering()
  for site, members in pairs(entering) do
    call_in_parts(members, 'ZADD', P .. ':w:' .. site)
  end
  entering = {}
end

-- Find the first waiting page of a site, where it is not known.
local function look_for_head(site)
  save_entering(site)
  local tier = 0
  if site.tiers > 0 then
    tier = tonumber(call('ZRANGE', P .. ':t:' .. site.id, 0, 0)[1])
    if tier < 0 and call('EXISTS', waiting_key(site, 0)) == 1 then
      tier = 0
    end
  end
  local found = call('ZRANGE', waiting_key(site, tier), 0, 0, 'WITHSCORES')
  site.knows_head, site.head = true, nil
  if #found > 0 then
    site.head_tier, site.head_key = tier, -tonumber(found[2])
    site.head = unpack_struct('>I4', found[1])
  end
end

-- Where sites stand, as it is to be: tier -> member -> score, or false to leave; site -> time
-- likewise.
local ready_changes, delayed_changes, has_moved = {}, {}, false

local function change_ready(tier, first, score)
  local changes = ready_changes[tier]
  if changes == nil then
    changes = {}
    ready_changes[tier] = changes
  end
  changes[first] = score
  has_moved = true
end

local function save_places()
  if not has_moved then
    return
  end
  has_moved = false
  for tier, changes in pairs(ready_changes) do
    local added, removed = {}, {}
    for first, score in pairs(changes) do
      if score then
        added[#added + 1] = score
        added[#added + 1] = pack('>I4', first)
      else
        removed[#removed + 1] = pack('>I4', first)
      end
    end
    local key = P .. ':ready:' .. exact(tier)
    if #removed > 0 then
      call_in_parts(removed, 'ZREM', key)
    end
    if #added > 0 then
      call_in_parts(added, 'ZADD', key)
    end
  end
  local added, removed = {}, {}
  for id, time in pairs(delayed_changes) do
    if time then
      added[#added + 1] = time
      added[#added + 1] = id
    else
      removed[#removed + 1] = id
    end
  end
  if #removed > 0 then
    call_in_parts(removed, 'ZREM', P .. ':delayed')
  end
  if #added > 0 then
    call_in_parts(added, 'ZADD', P .. ':delayed')
  end
  ready_changes, delayed_changes = {}, {}
end

local function stand_nowhere(site)
  if site.place == READY then
    change_ready(site.place_tier, site.first, false)
    counts.ready = counts.ready - 1
  elseif site.place == DELAYED then
    delayed_changes[site.id], has_moved = false, true
    site.delayed_until = nil
  end
  site.place = NOWHERE
end

-- Place a site where its first page, its leases and its time say.
local function place(site)
  site.to_place, site.dirty = false, true
  if site.waiting == 0 or site.leased >= limit_of(site) then
    stand_nowhere(site)
  elseif site.ready_at > now then
    if site.place == READY then
      stand_nowhere(site)
    end
    if site.delayed_until ~= site.ready_at then
      delayed_changes[site.id], has_moved = site.ready_at, true
      site.delayed_until = site.ready_at
    end
    site.place = DELAYED
  else
    if not site.knows_head then
      look_for_head(site)
    end
    local tier, key, first = site.head_tier, site.head_key, site.head
    tier = tier + (site.visited > 0 and ON_VISIT or 0)
    local stays = site.place == READY and site.first == first and site.place_tier == tier
    if not stays then
      stand_nowhere(site)
      counts.ready = counts.ready + 1
      if tier ~= 0 then
        call('ZADD', P .. ':tiers', exact(-tier), exact(tier))
      end
    end
    if config.by_waiting_pages == 1 then
      change_ready(tier, first, -site.waiting)
    elseif not stays or key ~= site.first_key then
      change_ready(tier, first, -key)
    end
    site.first_key = key
    site.place, site.first, site.place_tier = READY, first, tier
  end
end

-- Have a site placed before its place matters.
local touched = {}

local function touch(site)
  if not site.to_place then
    site.to_place = true
    touched[#touched + 1] = site
  end
end

local function place_touched()
  for at = 1, #touched do
    local site = touched[at]
    touched[at] = nil
    if site.to_place then
      place(site)
    end
  end
end

-- Whether a page leaves before the first one that is known of its site.
local function is_before_head(site, id, page)
  if site.head == nil or page.tier ~= site.head_tier then
    return site.head == nil or page.tier > site.head_tier
  end
  return page.key > site.head_key or (page.key == site.head_key and id < site.head)
end

-- Have a site placed, unless a page that came to wait, or changed its key, is not its first one.
local function touch_by(site, id, page)
  if site.knows_head then
    if site.head == id then
      if page.tier == site.head_tier and page.key >= site.head_key then
        site.head_key = page.key
      else
        site.knows_head = false
      end
    elseif is_before_head(site, id, page) then
      site.head, site.head_tier, site.head_key = id, page.tier, page.key
    elseif config.by_waiting_pages ~= 1 then
      return
    end
  end
  if site.place ~= DELAYED then
    touch(site)
  end
end

local function enter(id, page, site, score)
  if page.tier == 0 then
    local members = entering[site.id]
    if members == nil then
      members = {}
      entering[site.id] = members
    end
    members[#members + 1] = score or -page.key
    members[#members + 1] = pack('>I4', id)
    return
  end
  local is_new = call('ZADD', waiting_key(site, page.tier), score or -page.key, pack('>I4', id)) == 1
  if is_new then
    site.tiers = site.tiers + call('ZADD', P .. ':t:' .. site.id, exact(-page.tier), exact(page.tier))
    site.dirty = true
  end
end

local function leave(id, page, site)
  local key = waiting_key(site, page.tier)
  save_entering(site)
  call('ZREM', key, pack('>I4', id))
  if page.tier ~= 0 and call('EXISTS', key) == 0 then
    site.tiers = site.tiers - call('ZREM', P .. ':t:' .. site.id, exact(page.tier))
    site.dirty = true
  end
  if site.head == id then
    site.knows_head = false
  end
end

-- Queue a page that does not wait.
local function push(id, page, tier, key)
  local site = site_of(page.site)
  page.tier, page.key, page.state, page.dirty = tier, key, WAITING, true
  site.waiting, site.dirty = site.waiting + 1, true
  counts.waiting = counts.waiting + 1
  enter(id, page, site)
  touch_by(site, id, page)
end

-- Change the key of a page that waits.
local function rekey(id, page, key)
  if page.key ~= key then
    local site = site_of(page.site)
    page.key, page.dirty = key, true
    enter(id, page, site)
    touch_by(site, id, page)
  end
end

-- Change the tier of a page that waits.
local function retier(id, page, tier)
  if page.tier == tier then
    return
  end
  local site = site_of(page.site)
  save_entering(site)
  -- Its key may have changed since it came to wait, which is no reason to stand elsewhere.
  local score = call('ZSCORE', waiting_key(site, page.tier), pack('>I4', id))
  leave(id, page, site)
  page.tier, page.dirty = tier, true
  enter(id, page, site, score)
  site.knows_head = false
  touch(site)
end

-- The key at which a page is to wait: pages that no visit has shown yet have that of new ones.
local function key_to_wait(id, page)
  return id < counts.keyed and page.key or counts.initial
end

-- Queue a page at a request priority; one that waits already keeps the higher priority.
local function queue(id, page, priority)
  local tier = 2 * min(max(priority, LOWEST), HIGHEST)
  local hot = page.tier % 2
  if page.state == WAITING then
    retier(id, page, max(tier, page.tier - hot) + hot)
  else
    push(id, page, tier + hot, key_to_wait(id, page))
  end
end

-- Write all that has changed.
local function save_all()
  place_touched()
  save_all_entering()
  save_places()
  save_hosts()
  save_sites()
  save_pages()
  save_identities()
  save_urls()
  if #written > 0 then
    call_in_parts(written, 'MSET')
  end
  save_counts()
end
