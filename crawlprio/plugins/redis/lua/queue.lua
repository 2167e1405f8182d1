-- The two-level queue: waiting pages by site, and sites by place. Follows `texts.lua`.

local function waiting_key(site, tier)
  return P .. ':w:' .. site.id .. (tier == 0 and '' or ':' .. exact(tier))
end

-- Pages that are added to tier 0 or change keys there: site -> scores and members.
local unsaved_members = {}

local function save_members(site)
  local members = unsaved_members[site.id]
  if members then
    unsaved_members[site.id] = nil
    call_in_chunks(members, 'ZADD', P .. ':w:' .. site.id)
  end
end

local function save_all_members()
  for site, members in pairs(unsaved_members) do
    call_in_chunks(members, 'ZADD', P .. ':w:' .. site)
  end
  unsaved_members = {}
end

-- Find a site's first waiting page.
local function find_head(site)
  save_members(site)
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

-- Changes of sites' places: tier -> member -> score, or false to remove; likewise site -> time.
local ready_changes, delayed_changes, has_changes = {}, {}, false

local function change_ready(tier, first, score)
  local changes = ready_changes[tier]
  if changes == nil then
    changes = {}
    ready_changes[tier] = changes
  end
  changes[first] = score
  has_changes = true
end

local function save_places()
  if not has_changes then
    return
  end
  has_changes = false
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
      call_in_chunks(removed, 'ZREM', key)
    end
    if #added > 0 then
      call_in_chunks(added, 'ZADD', key)
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
    call_in_chunks(removed, 'ZREM', P .. ':delayed')
  end
  if #added > 0 then
    call_in_chunks(added, 'ZADD', P .. ':delayed')
  end
  ready_changes, delayed_changes = {}, {}
end

local function unplace(site)
  if site.place == READY then
    change_ready(site.place_tier, site.first, false)
    counts.ready = counts.ready - 1
  elseif site.place == DELAYED then
    delayed_changes[site.id], has_changes = false, true
    site.delayed_until = nil
  end
  site.place = NOWHERE
end

-- Put a site where its first page, leases and ready time require.
local function place(site)
  site.to_place, site.dirty = false, true
  if site.waiting == 0 or site.leased >= limit_of(site) or site.is_held == 1 then
    unplace(site)
  elseif site.ready_at > now then
    if site.place == READY then
      unplace(site)
    end
    if site.delayed_until ~= site.ready_at then
      delayed_changes[site.id], has_changes = site.ready_at, true
      site.delayed_until = site.ready_at
    end
    site.place = DELAYED
  else
    if not site.knows_head then
      find_head(site)
    end
    local tier, key, first = site.head_tier, site.head_key, site.head
    tier = tier + (site.visited > 0 and ON_VISIT or 0)
    local stays = site.place == READY and site.first == first and site.place_tier == tier
    if not stays then
      unplace(site)
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

-- Mark a site to be placed before places are read or written.
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

-- Whether a page leaves before the site's first page as known.
local function precedes_head(site, id, page)
  if site.head == nil or page.tier ~= site.head_tier then
    return site.head == nil or page.tier > site.head_tier
  end
  return page.key > site.head_key or (page.key == site.head_key and id < site.head)
end

-- Mark a site to be placed after a page was queued or changed its key, unless that page is not first.
local function touch_if_head(site, id, page)
  if site.knows_head then
    if site.head == id then
      if page.tier == site.head_tier and page.key >= site.head_key then
        site.head_key = page.key
      else
        site.knows_head = false
      end
    elseif precedes_head(site, id, page) then
      site.head, site.head_tier, site.head_key = id, page.tier, page.key
    elseif config.by_waiting_pages ~= 1 then
      return
    end
  end
  if site.place ~= DELAYED then
    touch(site)
  end
end

local function enqueue(id, page, site, score)
  if page.tier == 0 then
    local members = unsaved_members[site.id]
    if members == nil then
      members = {}
      unsaved_members[site.id] = members
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

local function dequeue(id, page, site)
  local key = waiting_key(site, page.tier)
  save_members(site)
  call('ZREM', key, pack('>I4', id))
  if page.tier ~= 0 and call('EXISTS', key) == 0 then
    site.tiers = site.tiers - call('ZREM', P .. ':t:' .. site.id, exact(page.tier))
    site.dirty = true
  end
  if site.head == id then
    site.knows_head = false
  end
end

-- Queue a page that is not waiting.
local function push(id, page, tier, key)
  local site = site_of(page.site)
  page.tier, page.key, page.state, page.dirty = tier, key, WAITING, true
  site.waiting, site.dirty = site.waiting + 1, true
  counts.waiting = counts.waiting + 1
  enqueue(id, page, site)
  touch_if_head(site, id, page)
end

-- Change the key of a waiting page.
local function rekey(id, page, key)
  if page.key ~= key then
    local site = site_of(page.site)
    page.key, page.dirty = key, true
    enqueue(id, page, site)
    touch_if_head(site, id, page)
  end
end

-- Change the tier of a waiting page.
local function retier(id, page, tier)
  if page.tier == tier then
    return
  end
  local site = site_of(page.site)
  save_members(site)
  -- The queue's score may be older than the key; a new tier is no reason to update it.
  local score = call('ZSCORE', waiting_key(site, page.tier), pack('>I4', id))
  dequeue(id, page, site)
  page.tier, page.dirty = tier, true
  enqueue(id, page, site, score)
  site.knows_head = false
  touch(site)
end

-- Return the key to queue a page with; pages that no visit has shown share `counts.initial`.
local function queueing_key(id, page)
  return id < counts.keyed and page.key or counts.initial
end

-- Queue a page at a request priority; a waiting page keeps the higher priority.
local function queue(id, page, priority)
  local tier = 2 * min(max(priority, LOWEST), HIGHEST)
  local hot = page.tier % 2
  if page.state == WAITING then
    retier(id, page, max(tier, page.tier - hot) + hot)
  else
    push(id, page, tier + hot, queueing_key(id, page))
  end
end

-- Write all changes.
local function save_all()
  place_touched()
  save_all_members()
  save_places()
  save_hosts()
  save_sites()
  save_pages()
  save_identities()
  save_urls()
  if #written > 0 then
    call_in_chunks(written, 'MSET')
  end
  save_counts()
end
