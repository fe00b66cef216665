-- Removes ids from those that were counted as read. Flagged allow-oom.
--
-- ARGV   the ids
-- returns how many entries are removed
--
-- The counts stay. Sets of other days have expired: see count_reads.

local today, gone = math.floor(now_ms() / 86400000), 0
for day = today - 3, today + 1 do
  local charged = key('charged:' .. digits(day))
  for _, id in ipairs(ARGV) do gone = gone + redis.call('HDEL', charged, id) end
end
return gone
