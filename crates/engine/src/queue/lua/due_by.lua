-- How many ids of each lane are due at these moments. Flagged no-writes.
--
-- ARGV   moments, ms from now; negative ones are past
-- returns per lane, by tier, most impatient first {lane, how many are due by the first moment, by the second, …}

local now = now_ms()
local moments = {}
for i, offset in ipairs(ARGV) do moments[i] = digits(now + offset) end

local answer = {}
for i, lane in ipairs(lanes_in_order()) do
  local row = { lane.name }
  for at, moment in ipairs(moments) do row[at + 1] = redis.call('ZCOUNT', lane.key, '-inf', moment) end
  answer[i] = row
end
return answer
