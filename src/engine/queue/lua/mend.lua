-- Corrects due times that are out of bounds. Flagged allow-oom: it replaces scores and adds nothing.
--
-- ARGV   slack (ms, longer than any lease), limit
-- returns how many ids got a new due

local slack, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()

-- The clock stepped back: what looks late by this clock may be right.
if tonumber(redis.call('GET', key('fence')) or '0') - now > slack then return 0 end

local mended = 0
for _, lane in ipairs(lanes_in_order()) do
  if left <= 0 then break end
  local bound = '(' .. digits(now + lane.patience + slack)
  -- In a lane that counts no lateness every due time is right.
  local ids = not lane.timed and {} or redis.call('ZRANGEBYSCORE', lane.key, bound, '+inf', 'LIMIT', 0, left)
  local moves = {}
  for i, id in ipairs(ids) do
    moves[2 * i - 1], moves[2 * i] = digits(now + math.max(1, math.ceil(lane.patience * i / #ids))), id
  end
  if #ids > 0 then in_chunks('ZADD', lane.key, 'XX', moves) end
  mended, left = mended + #ids, left - #ids
end

count(now, { mended = mended })
return mended
