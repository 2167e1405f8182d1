-- Share what sites say in their robots.txt: one worker reads a file, the others take it from here.
--
--   [1]  find: return a file; if none is valid, the first worker to ask reads it, and others wait
--        keep: store a file that was read
--   [2]  host
--   [3]  host and port
--   [4]  keep: the file, which the scripts do not parse; [5] seconds for which it is valid
--   result  find: 0: wait, another worker reads it; 1: it is valid; 2: read it; then the last file
--           known, or '', and its age in seconds

local MAX_BYTES = 64 * 1024 * 1024 -- of all files; beyond it the largest are dropped, and read again

local function store(name, record)
  local packed = cmsgpack.pack(record)
  local size = #name + #packed
  local before = tonumber(call('ZSCORE', P .. ':robots_sizes', name) or 0)
  call('HSET', P .. ':robots', name, packed)
  call('ZADD', P .. ':robots_sizes', size, name)
  counts.robots = counts.robots + size - before
  while counts.robots > MAX_BYTES do
    local largest = call('ZPOPMAX', P .. ':robots_sizes')
    call('HDEL', P .. ':robots', largest[1])
    counts.robots = counts.robots - tonumber(largest[2])
  end
end

function calls.robots(at)
  local name = ARGV[at + 3]
  if ARGV[at + 1] == 'keep' then
    store(name, { now, now + tonumber(ARGV[at + 5]), '', 0, ARGV[at + 4] })
    return {}
  end
  local known = call('HGET', P .. ':robots', name)
  local record = known and cmsgpack.unpack(known) or { -huge, -huge, '', 0, '' }
  local fetched_at, valid_until, reader, reads_until, file = unpack(record)
  local answer = 2
  if valid_until > now then
    answer = 1
  elseif reader ~= worker and reads_until > now then
    answer = 0
  else
    -- Not for ever: the reader may wait for a page that waits for the file.
    store(name, { fetched_at, valid_until, worker, now + config.lease_seconds, file })
  end
  return { answer, file, exact(now - fetched_at) }
end
