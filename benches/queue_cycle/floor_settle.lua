#!lua flags=allow-oom
-- The least a settle can be: the ids go back. Nobody asks whether they are still ours.
--
-- The keys stand here by their names: {floor}:delayed, {floor}:leased
-- ARGV   delay (ms), then the ids
local time = redis.call('TIME')
local due = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
local adds = {}
for i = 2, #ARGV do
  adds[2 * i - 3] = due
  adds[2 * i - 2] = ARGV[i]
end
redis.call('ZADD', '{floor}:delayed', unpack(adds))
return redis.call('ZREM', '{floor}:leased', unpack(ARGV, 2))
