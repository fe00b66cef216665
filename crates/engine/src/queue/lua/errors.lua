-- The recorded errors, the newest first. Flagged no-writes.
--
-- ARGV   how many at the most, for how long they are kept (ms)
-- returns errors (JSON)

local after = '(' .. digits(now_ms() - ARGV[2])
local keys = redis.call('ZRANGE', key('errors:at'), '+inf', after, 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[1])
local errors = {}
for i = 1, #keys do errors[i] = redis.call('HGET', key('errors'), keys[i]) or '' end
return errors
