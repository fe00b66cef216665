#!lua flags=allow-oom
-- The least a settle can be: the ids go back. Nobody asks whether they are still ours.
--
-- KEYS   delayed, leased
-- ARGV   delay (ms), then the ids
local time = redis.call('TIME')
local due = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
local adds = {}
for i = 2, #ARGV do
  adds[2 * i - 3] = due
  adds[2 * i - 2] = ARGV[i]
end
redis.call('ZADD', KEYS[1], unpack(adds))
return redis.call('ZREM', KEYS[2], unpack(ARGV, 2))
