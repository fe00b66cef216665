-- How many ids of each lane are due at these moments. Flagged no-writes.
--
-- ARGV   moments, ms from now; negative ones are past
-- returns per lane, most impatient first {lane, how many are due by the first moment, by the second, …}

local now = now_ms()
local moments = {}
for i, offset in ipairs(ARGV) do moments[i] = digits(now + offset) end

local lanes = {}
do
  local flat = redis.call('HGETALL', key('lanes'))
  for i = 1, #flat, 2 do lanes[#lanes + 1] = { name = flat[i], patience = tonumber(flat[i + 1]) } end
  table.sort(lanes, function(a, b) return a.patience < b.patience or (a.patience == b.patience and a.name < b.name) end)
end

local answer = {}
for i, lane in ipairs(lanes) do
  local set, row = key('delayed:' .. lane.name), { lane.name }
  for at, moment in ipairs(moments) do row[at + 1] = redis.call('ZCOUNT', set, '-inf', moment) end
  answer[i] = row
end
return answer
