-- Brings forward what is due too late. It stands before repair_due_times.lua and apply_lane.lua.

-- Returns true if the clock stepped back: what looks late by this clock may be right.
local function clock_is_behind(now, slack)
  return tonumber(redis.call('GET', key('fence')) or '0') - now > slack
end

-- Spreads ids of a lane that are due later than `now` + its patience + `slack` over its next patience, `limit` at the most. Returns how
-- many those are. In a lane that counts no lateness every due time is right.
local function spread(lane, now, slack, limit)
  if not lane.timed then return 0 end
  local bound = '(' .. digits(now + lane.patience + slack)
  local ids = redis.call('ZRANGEBYSCORE', lane.key, bound, '+inf', 'LIMIT', 0, limit)
  local moves = {}
  for i, id in ipairs(ids) do
    moves[2 * i - 1], moves[2 * i] = digits(now + math.max(1, math.ceil(lane.patience * i / #ids))), id
  end
  if #ids > 0 then in_chunks('ZADD', lane.key, 'XX', moves) end
  return #ids
end
