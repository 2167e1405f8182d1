-- Take in what a crawl that was recorded elsewhere says of a page beside its visits.
--
--   ARGV[3]  page
--   ARGV[4]  request: it waits with ARGV[6], JSON, at priority ARGV[5]; unfiltered: it is new to
--            requests that are no repetition; first: it was being fetched, and leaves at priority
--            ARGV[5] if it waits
--   ARGV[7]  request: URL of the page

local is_done, err = begin()
if err then
  return err
end
if is_done then
  return finish()
end
local id, what, priority = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local page = page_of(id)
if what == 'request' then
  set_flag(page, REPEATED, true)
  add_request(id, priority, ARGV[6])
  if page.state ~= WAITING then
    keep_url(id, site_of(page.site).host, ARGV[7])
  end
  if page.state ~= WAITING or priority ~= 0 then
    queue(id, page, priority)
  end
elseif what == 'unfiltered' then
  set_flag(page, UNFILTERED, true)
elseif page.state == WAITING then
  queue(id, page, priority)
end
return finish()
