-- Do calls of a worker, in their order. All that they change is written once, at the end.
--
--   ARGV[2]     number of the first call; the others have the numbers after it
--   ARGV[3]...  of each call its name (`add`, `seeds`, `observe`, `lease`, `end_lease`, `clock`, `load`,
--               `load_request`, `deliver`, `delivered`, `undelivered`), how many arguments it has, and these
--   result      a list for each call, as its file says
--
-- Each call is a function of `calls`, in a file of its own: `at` is the place in ARGV before its first
-- argument, which the file calls [1], and `is_done` says that it was done before: it is not done
-- again, but answered where an answer may have been lost.

local ends, at = {}, 3
while at < #ARGV do
  ends[#ends + 1] = at + 1 + tonumber(ARGV[at + 1])
  at = ends[#ends] + 1
end
local known, err = begin(#ends)
if not known then
  return err
end
local results, from = {}, 3
for number, last in ipairs(ends) do
  results[number] = calls[ARGV[from]](from + 1, seq <= known)
  seq, from = seq + 1, last + 1
end
save_tally(by_domain)
save_tally(by_pattern)
return finish(unpack(results))
