#!lua flags=allow-oom
-- The least a claim can be: the first `limit` ids of one sorted set move to another. No lease to check, no
-- counters, no lanes, no buffer.
--
-- KEYS   delayed, leased
-- ARGV   limit, lease (ms)
local time = redis.call('TIME')
local fence = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
local picked = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
if #picked == 0 then return picked end
local adds = { fence }
for i = 1, #picked, 2 do
  adds[i + 1] = picked[i]
  adds[i + 2] = fence
end
redis.call('ZADD', KEYS[2], unpack(adds, 1, #picked))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #picked / 2 - 1)
return picked
