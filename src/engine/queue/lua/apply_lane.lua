-- Applies a new kind to an existing lane, and brings forward the ids that are due later than its patience allows. Flagged
-- allow-oom: it replaces fields and scores and adds nothing.
--
-- ARGV   lane, kind, slack (ms, longer than any lease), limit
-- returns the number of ids with a new due time

local name, kind, slack, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HGET', key('lanes'), name)
if not known then return 0 end
if known ~= kind then redis.call('HSET', key('lanes'), name, kind) end

local now, lane = now_ms(), nil
for _, one in ipairs(lanes_in_order()) do
  if one.name == name then lane = one end
end
-- The clock stepped back: a due time that looks too late by this clock may be right.
if not lane.timed or tonumber(redis.call('GET', key('fence')) or '0') - now > slack then return 0 end

local ids = redis.call('ZRANGEBYSCORE', lane.key, '(' .. digits(now + lane.patience), '+inf', 'LIMIT', 0, limit)
local moves = {}
for i, id in ipairs(ids) do
  moves[2 * i - 1], moves[2 * i] = digits(now + math.max(1, math.ceil(lane.patience * i / #ids))), id
end
if #ids > 0 then in_chunks('ZADD', lane.key, 'XX', moves) end
return #ids
