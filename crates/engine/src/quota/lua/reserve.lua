-- Counts ids as read, as far as the budget has room. Flagged allow-oom.
--
-- ARGV   call, reads that are allowed (0: any number), length of the period (ms; 0: a month), the day a month begins
--        on, margin (ms), then the ids
-- returns a text with 1 for each id that may be asked for, 0 for each that may not
--
-- An id that was counted for a day is free in it, so the same call again counts nothing twice. Once a second call
-- asks for it, neither can take it back: one of them may have been charged.

local call, limit = ARGV[1], tonumber(ARGV[2])
local days = days_of(now_ms(), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]))
for _, at in ipairs(days) do
  at.span.reads = reads_of(at.span)
  at.count = 0
end

local granted = {}
for i = 6, #ARGV do
  local id = ARGV[i]
  local fresh, taken, costs = {}, {}, {}
  for _, at in ipairs(days) do
    local by = redis.call('HGET', at.charged, id)
    if not by then
      fresh[#fresh + 1] = at
      costs[at.span] = (costs[at.span] or 0) + 1
    elseif by ~= '' and string.sub(by, 1, #call + 1) ~= call .. ' ' then
      taken[#taken + 1] = at
    end
  end
  local fits = true
  for span, cost in pairs(costs) do
    if limit > 0 and span.reads + cost > limit then fits = false end
  end
  if fits then
    for _, at in ipairs(taken) do redis.call('HSET', at.charged, id, '') end
    for _, at in ipairs(fresh) do
      redis.call('HSET', at.charged, id, call .. ' ' .. part_of(at))
      at.span.reads = at.span.reads + 1
      at.count = at.count + 1
    end
  end
  granted[#granted + 1] = fits and '1' or '0'
end
for _, at in ipairs(days) do
  if at.count > 0 then count_reads(at, at.count) end
end
return table.concat(granted)
