-- Says that a worker is alive and what it says of itself, adds to the counters, and says how late it claimed ids.
-- Flagged allow-oom.
--
-- ARGV   worker, expiry (ms), number of fields, field, value, …, number of counters, counter, by, …, then:
--        upper bound (ms), ids, …
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

local at = 4 + 2 * fields
local last = at + 2 * tonumber(ARGV[at])
local counters = {}
for i = at + 1, last, 2 do
  counters[ARGV[i]] = (counters[ARGV[i]] or 0) + ARGV[i + 1]
end
count(now, counters)

if last < #ARGV then
  local minute = key('lateness:' .. digits(math.floor(now / 60000)))
  for i = last + 1, #ARGV, 2 do
    redis.call('HINCRBY', minute, ARGV[i], ARGV[i + 1])
  end
  redis.call('EXPIRE', minute, 7200)
end
return false
