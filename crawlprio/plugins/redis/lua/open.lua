-- Begin a crawl, or join it. Runs without `common.lua`.
--
--   KEYS[1]     the prefix P
--   ARGV[1]     1: begin the crawl if it does not exist; 0: do not
--   ARGV[2]     number of slots: hosts with settings of their own
--   ARGV[3]     a unique id for a new crawl
--   ARGV[4]...  host and "delay limit" of each slot; packed counts of a new crawl; names and values of
--               `config`
--   returns     names and values of the crawl's `config`

local P = KEYS[1]
if redis.call('EXISTS', P .. ':config') == 0 and ARGV[1] == '1' then
  local n_slots = tonumber(ARGV[2])
  for slot = 1, n_slots do
    redis.call('HSET', P .. ':slots', ARGV[2 + 2 * slot], ARGV[3 + 2 * slot])
  end
  local rules = { crawl_id = ARGV[3], n_slots = n_slots }
  redis.call('HSET', P .. ':config', 'crawl_id', ARGV[3])
  for at = 5 + 2 * n_slots, #ARGV, 2 do
    redis.call('HSET', P .. ':config', ARGV[at], ARGV[at + 1])
    rules[ARGV[at]] = tonumber(ARGV[at + 1]) or ARGV[at + 1]
  end
  redis.call('SET', P .. ':rules', cmsgpack.pack(rules))
  redis.call('SET', P .. ':counts', ARGV[4 + 2 * n_slots])
  redis.call('ZADD', P .. ':tiers', 0, '0')
  -- Redis searches a small hash linearly unless it has a long value, so add one.
  for _, name in ipairs({ ':hosts', ':domains', ':patterns' }) do
    redis.call('HSET', P .. name, ' ', ('-'):rep(128))
  end
end
return redis.call('HGETALL', P .. ':config')
