-- Run calls of a worker in order; write all their changes once, at the end.
--
--   ARGV[2]     number of the first call; the others follow it
--   ARGV[4]...  for each call its name (`add`, `seeds`, `observe`, `lease`, `end_lease`, `clock`, `load`,
--               `load_request`, `deliver`, `delivered`, `undelivered`), number of arguments, arguments
--   result      a list for each call, described in its file
--
-- Each call is a function in `calls`, in a file of its own, with two arguments: `at`, the index in ARGV
-- before the call's first argument, which its file calls [1]; and `is_done`, which says that the call
-- is a retry. A retry changes nothing, but repeats an answer that may have been lost.

local ends, at = {}, 4
while at < #ARGV do
  ends[#ends + 1] = at + 1 + tonumber(ARGV[at + 1])
  at = ends[#ends] + 1
end
local known, err = begin(#ends)
if not known then
  return err
end
local results, from = {}, 4
for number, last in ipairs(ends) do
  results[number] = calls[ARGV[from]](from + 1, seq <= known)
  seq, from = seq + 1, last + 1
end
save_tallies()
return finish(unpack(results))
