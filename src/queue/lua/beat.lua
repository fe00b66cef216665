-- Says that a worker is alive and what it says of itself, and adds to the counters. Flagged allow-oom.
--
-- ARGV   worker, expiry (ms), number of fields, field, value, …, then: counter, by, …
-- returns nothing

local now = now_ms()
local worker, expiry, fields = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local own = key('worker:' .. worker)
redis.call('ZADD', key('workers'), digits(now), worker)
if fields > 0 then
  redis.call('HSET', own, unpack(ARGV, 4, 3 + 2 * fields))
end
redis.call('PEXPIRE', own, expiry)
redis.call('ZREMRANGEBYSCORE', key('workers'), '-inf', digits(now - expiry))
local counters = {}
for i = 4 + 2 * fields, #ARGV, 2 do
  counters[ARGV[i]] = (counters[ARGV[i]] or 0) + ARGV[i + 1]
end
count(now, counters)
return false
