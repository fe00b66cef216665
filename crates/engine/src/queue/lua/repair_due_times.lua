-- Corrects due times that are out of bounds. Flagged allow-oom: it replaces scores and adds nothing.
--
-- ARGV   slack (ms, longer than any lease), limit
-- returns how many ids got a new due

local slack, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()
if clock_is_behind(now, slack) then return 0 end

local repaired = 0
for _, lane in ipairs(lanes_in_order()) do
  if left <= 0 then break end
  local moved = spread(lane, now, slack, left)
  repaired, left = repaired + moved, left - moved
end

count(now, { mended = repaired })
return repaired
