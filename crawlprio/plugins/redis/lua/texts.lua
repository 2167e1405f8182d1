-- Identities and URLs of pages. Follows `common.lua`.

-- Identities
--
-- A linear hash table (Litwin, "Linear hashing: a new tool for file and table addressing", VLDB
-- 1980) with IDENTITIES pages per bucket on average. Each time that many pages are added, one bucket
-- is split, so the number of buckets follows from the number of pages.

local find, sub = string.find, string.sub
local IDENTITIES, HASH_SIZE, IDENTITY_SIZE = 16, 10, 14
local buckets, new_identities, dirty_buckets = {}, {}, {}
local new_pages_of = {} -- hash -> page, for pages that this script has added
local n_buckets = floor((n_pages_before or 0) / IDENTITIES) + 1
local _, exponent = math.frexp(n_buckets)
local half = 2 ^ (exponent - 1)

local function bucket_of(hash)
  local number = unpack_struct('>I4', hash) % (2 * half)
  return number < n_buckets and number or number - half
end

local function read_bucket(number)
  local bucket = buckets[number]
  if bucket == nil then
    bucket = call('GET', P .. ':i:' .. number) or ''
    buckets[number] = bucket
  end
  return bucket
end

-- Return the page of a hash from its bucket, or false.
local function find_in(bucket, hash)
  local at = find(bucket, hash, 1, true)
  while at and (at - 1) % IDENTITY_SIZE ~= 0 do
    at = find(bucket, hash, at + 1, true)
  end
  if at then
    return (unpack_struct('>I4', bucket, at + HASH_SIZE))
  end
  return false
end

-- Return the page of an identity's hash, or nil.
local function find_page(hash)
  return new_pages_of[hash] or find_in(read_bucket(bucket_of(hash)), hash) or nil
end

-- Set `ids` to the page of each hash, or false; reads all buckets in one round trip.
local function find_pages(hashes, ids)
  local prefix, numbers, missing, keys = P .. ':i:', {}, {}, {}
  for at = 1, #hashes do
    local number = bucket_of(hashes[at])
    numbers[at] = number
    if buckets[number] == nil then
      buckets[number] = ''
      missing[#missing + 1] = number
      keys[#keys + 1] = prefix .. number
    end
  end
  if #keys > 0 then
    local found = look_up(keys, 'MGET')
    for at = 1, #keys do
      buckets[missing[at]] = found[at] or ''
    end
  end
  for at = 1, #hashes do
    ids[at] = new_pages_of[hashes[at]] or find_in(buckets[numbers[at]], hashes[at])
  end
end

local function add_identity(hash, id)
  new_pages_of[hash] = id
  local number = bucket_of(hash)
  local parts = new_identities[number]
  if parts == nil then
    parts = { read_bucket(number) }
    new_identities[number] = parts
  end
  parts[#parts + 1] = hash .. pack('>I4', id)
end

-- Write changed buckets, after splitting as many as the new pages call for.
local function save_identities()
  for number, parts in pairs(new_identities) do
    buckets[number], dirty_buckets[number] = table.concat(parts), true
  end
  local n_wanted = floor(counts.pages / IDENTITIES) + 1
  while n_buckets < n_wanted do
    local from, to = n_buckets - half, n_buckets
    local bucket, stays, goes = read_bucket(from), {}, {}
    n_buckets = n_buckets + 1
    for at = 1, #bucket, IDENTITY_SIZE do
      local record = sub(bucket, at, at + IDENTITY_SIZE - 1)
      -- One more bit of the hash decides which half an entry goes to.
      local chosen_half = unpack_struct('>I4', record) % (2 * half) == from and stays or goes
      chosen_half[#chosen_half + 1] = record
    end
    buckets[from], buckets[to] = table.concat(stays), table.concat(goes)
    dirty_buckets[from], dirty_buckets[to] = true, true
    if n_buckets == 2 * half then
      half = n_buckets
    end
  end
  for number in pairs(dirty_buckets) do
    write(P .. ':i:' .. number, buckets[number])
  end
end

-- URLs

local URLS, URL_HEAD = 16, 4
local url_blocks, new_urls, dirty_url_blocks = {}, {}, {}

local function read_urls(number)
  local block = url_blocks[number]
  if block == nil then
    -- A block whose first page is new does not exist yet.
    block = number * URLS < n_pages_before and call('GET', P .. ':u:' .. number) or ''
    url_blocks[number] = block
  end
  local parts = new_urls[number]
  if parts ~= nil then
    block = block .. table.concat(parts)
    url_blocks[number], dirty_url_blocks[number], new_urls[number] = block, true, nil
  end
  return block
end

-- Return the block that a page's URL belongs to; then its start and end, or nil if it is not stored.
local function find_url(id)
  local number, slot = floor(id / URLS), id % URLS
  local block, at = read_urls(number), 1
  while at <= #block do
    local its_slot, length = unpack_struct('>BI3', block, at)
    local after = at + URL_HEAD + length
    if its_slot == slot then
      return number, block, at, after
    end
    at = after
  end
  return number, block, nil, nil
end

local function forget_url(id)
  local number, block, at, after = find_url(id)
  if at then
    url_blocks[number] = block:sub(1, at - 1) .. block:sub(after)
    dirty_url_blocks[number] = true
  end
end

-- Store the URL of a page that has none stored.
local function add_url(id, host, url)
  local form, from = 'u', 1
  if sub(url, 1, 8) == 'https://' then
    form, from = 's', 9 + #host
  elseif sub(url, 1, 7) == 'http://' then
    form, from = 'h', 8 + #host
  end
  if form ~= 'u' and (sub(url, from - #host, from - 1) ~= host or sub(url, from, from) ~= '/') then
    form, from = 'u', 1
  end
  local kept = form .. sub(url, from)
  local number = floor(id / URLS)
  local parts = new_urls[number]
  if parts == nil then
    parts = {}
    new_urls[number] = parts
  end
  parts[#parts + 1] = pack('>BI3', id % URLS, #kept) .. kept
end

local function replace_url(id, host, url)
  forget_url(id)
  add_url(id, host, url)
end

local function url_of(id, host)
  local _, block, at, after = find_url(id)
  if not at then
    return nil
  end
  local form, rest = block:sub(at + URL_HEAD, at + URL_HEAD), block:sub(at + URL_HEAD + 1, after - 1)
  if form == 'u' then
    return rest
  end
  return (form == 'h' and 'http://' or 'https://') .. host .. rest
end

local function save_urls()
  for number in pairs(new_urls) do
    read_urls(number)
  end
  for number in pairs(dirty_url_blocks) do
    if url_blocks[number] == '' then
      call('DEL', P .. ':u:' .. number)
    else
      write(P .. ':u:' .. number, url_blocks[number])
    end
  end
end
