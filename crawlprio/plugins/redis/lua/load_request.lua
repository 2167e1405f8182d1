-- Load the state of a page that visits do not show, of a crawl recorded elsewhere.
--
--   [1]  page
--   [2]  request: queue [4], JSON, at priority [3]; unfiltered: the next request for the page is not a
--        duplicate; first: the page was in flight, so queue it at priority [3] if it is waiting
--   [5,6]  request: URL of the page, and its registered domain

function calls.load_request(at, is_done)
  if is_done then
    return {}
  end
  local id, what, priority = tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
  local page = page_of(id)
  if what == 'request' then
    set_flag(page, is.repeated, true)
    add_request(id, priority, ARGV[at + 4])
    end_claim(id, page, ARGV[at + 6])
    if page.state ~= WAITING then
      replace_url(id, site_of(page.site).host, ARGV[at + 5])
    end
    if page.state ~= WAITING or priority ~= 0 then
      queue(id, page, priority)
    end
  elseif what == 'unfiltered' then
    set_flag(page, is.unfiltered, true)
  elseif page.state == WAITING then
    queue(id, page, priority)
  end
  return {}
end
