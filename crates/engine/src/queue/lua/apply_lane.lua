-- Applies a new kind to an existing lane, and brings forward the ids that are due later than its patience allows. Flagged
-- allow-oom: it replaces fields and scores and adds nothing.
--
-- ARGV   lane, kind, slack (ms, longer than any lease), limit
-- returns the number of ids with a new due time

local name, kind, slack, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HGET', key('lanes'), name)
if not known then return 0 end
if known ~= kind then redis.call('HSET', key('lanes'), name, kind) end

local now = now_ms()
if clock_is_behind(now, slack) then return 0 end
return spread(lane_of(name, kind), now, 0, limit)
