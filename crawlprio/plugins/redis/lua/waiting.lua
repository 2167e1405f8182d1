-- Scan the waiting requests. Read-only; ARGV[1] and ARGV[2] are ignored.
--
--   ARGV[3]  cursor: 0 to begin, then the cursor returned last, until it is 0 again
--   returns  {cursor, page, URL, number, priority, request ('': a plain GET), page, ...}

local step = call('HSCAN', P .. ':requests', ARGV[3], 'COUNT', 500)
local result = { step[1] }
for at = 1, #step[2], 2 do
  local id = tonumber(step[2][at])
  local url = url_of(id, site_of(page_of(id).site).host)
  for _, waiting in ipairs(requests_of(id)) do
    for _, value in ipairs({ id, url, waiting[2], waiting[1], waiting[3] }) do
      result[#result + 1] = value
    end
  end
end
return result
