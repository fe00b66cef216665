-- Removes examples and messages of recorded errors that name one of these ids or handles, and the examples of errors that occur in
-- the period given below. Flagged allow-oom: it adds only one timestamp.
--
-- ARGV   period without examples from now on (ms), then names in lower case
-- returns nothing

local names = {}
for i = 2, #ARGV do names[ARGV[i]] = true end
redis.call('SET', key('errors:bare'), digits(now_ms() + ARGV[1]), 'PX', digits(7 * 86400000))
blank_errors(names)
return false
