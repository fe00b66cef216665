-- Takes a batch of due jobs under a lease, if one is ready. Flagged allow-oom.
--
-- ARGV   token, limit, linger (ms), lookahead (share of a lane's patience), lease (ms)
-- returns {'batch', now, record}, or {'empty', now, wait (ms), reason of a pause or ''}
--        record: a line "fence claimed_at", then a line "id due lane deliveries failures" per job
--
-- The write that adds (leased) comes before the one that removes (delayed).

local token = ARGV[1]
local limit, linger, lookahead, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local now = now_ms()
local LEASED, DELIVERIES, FAILURES, TURNS = key('leased'), key('deliveries'), key('failures'), key('turns')
local RECORD = key('claim:' .. token)

-- The same token again: the first reply was lost. Answer the batch, less what it no longer holds.
local record = redis.call('GET', RECORD)
if record then
  local head, lines = string.match(record, '^([^\n]*)\n(.*)$')
  local fence = string.match(head, '^%d+')
  if tonumber(fence) > now then
    local held, kept = {}, { head }
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASED, fence, fence)) do held[id] = true end
    for line in string.gmatch(lines, '[^\n]+') do
      if held[string.match(line, '^%S+')] then kept[#kept + 1] = line end
    end
    if #kept > 1 then
      return { 'batch', now, table.concat(kept, '\n') .. '\n' }
    end
  end
end

local paused = redis.call('GET', key('paused'))
if paused then
  return { 'empty', now, linger, paused }
end

-- The lanes, most impatient first.
local lanes = {}
do
  local flat = redis.call('HGETALL', key('lanes'))
  for i = 1, #flat, 2 do
    lanes[#lanes + 1] = { name = flat[i], key = key('delayed:' .. flat[i]), patience = tonumber(flat[i + 1]) }
  end
  table.sort(lanes, function(a, b) return a.patience < b.patience or (a.patience == b.patience and a.name < b.name) end)
end

-- Batches with suspects are halved per delivery, so that the id that kills its worker is soon alone.
local function suspect_limit(deliveries)
  return math.max(1, math.floor(limit / 2 ^ deliveries))
end

-- Suspects (jobs with deliveries) have a call of their own in four while others wait.
local OTHERS_FIRST = 3
local any_suspects = redis.call('EXISTS', DELIVERIES) == 1
local suspects_turn = not any_suspects or tonumber(redis.call('GET', TURNS) or OTHERS_FIRST) >= OTHERS_FIRST

local picked = {} -- {id, due as text, lane, deliveries, failures}
local of_suspects = false

-- 1. Leases that ran out: at once, exempt from linger, and by themselves. Half a batch at the most,
-- since each has a delivery to its name now. Those that ran out for the first time go first; suspects
-- wait for their turn.
local over, over_suspects = {}, {} -- {id, the lease's end as text, deliveries before}
do
  local flat = redis.call('ZRANGEBYSCORE', LEASED, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, 2 * limit)
  if #flat > 0 then
    local ids = {}
    for i = 1, #flat, 2 do ids[#ids + 1] = flat[i] end
    local known = redis.call('HMGET', DELIVERIES, unpack(ids))
    for i, id in ipairs(ids) do
      local to = known[i] and over_suspects or over
      to[#to + 1] = { id, flat[2 * i], tonumber(known[i] or 0) }
    end
  end
end

local function pick_over(jobs)
  local first_lane = lanes[1] and lanes[1].name or 'default'
  local most = 0
  for _, job in ipairs(jobs) do
    local deliveries = job[3] + 1
    most = math.max(most, deliveries)
    if #picked >= suspect_limit(most) then break end
    picked[#picked + 1] = { job[1], job[2], first_lane, deliveries, 0 }
  end
end

local expired = false
if #over > 0 then
  expired = true
  pick_over(over)
elseif #over_suspects > 0 and suspects_turn then
  expired, of_suspects = true, true
  pick_over(over_suspects)
end

if not expired then
  -- 2. Due jobs of all lanes, the largest (now - due) / patience first. A lane is read by rank, a slice
  -- at a time: its picks are always its first ones, unless suspects are left out.
  local slice = #lanes == 1 and limit or math.ceil(limit * 1.25 / math.max(1, #lanes))
  local SLICES = 20 -- of one lane: what a claim costs is bounded
  local oldest

  local function without_suspects(items)
    local ids, others = {}, {}
    for i = 1, #items, 2 do ids[#ids + 1] = items[i] end
    local known = #ids > 0 and redis.call('HMGET', DELIVERIES, unpack(ids)) or {}
    for i, id in ipairs(ids) do
      if not known[i] then
        others[#others + 1] = id
        others[#others + 1] = items[2 * i]
      end
    end
    return others
  end

  local function step(lane)
    lane.at = lane.at + 2
    while lane.at > #lane.items and not lane.whole do
      lane.items = redis.call('ZRANGE', lane.key, lane.read, lane.read + slice - 1, 'WITHSCORES')
      lane.read = lane.read + slice
      lane.whole = #lane.items < 2 * slice or lane.read >= SLICES * slice
      if not lane.taken then lane.items = without_suspects(lane.items) end
      lane.at = 1
    end
    local due = lane.items[lane.at + 1]
    lane.urgency = due and (now - due) / lane.patience or -math.huge
  end

  local function pick_down_to(least)
    while #picked < limit do
      local best = nil
      local urgency = least
      for i = 1, #lanes do
        local lane = lanes[i]
        if lane.urgency >= urgency and (not best or lane.urgency > urgency) then
          best, urgency = lane, lane.urgency
        end
      end
      if not best then return end
      local due = best.items[best.at + 1]
      picked[#picked + 1] = { best.items[best.at], due, best.name, 0, 0 }
      oldest = math.min(oldest, tonumber(due))
      if best.taken then best.taken = best.taken + 1 end
      step(best)
    end
  end

  -- Says whether what is due makes a batch: full, or sent short with what is due soon in the free places.
  local function pick_due(suspects_too)
    picked, oldest = {}, now + 1
    for _, lane in ipairs(lanes) do
      lane.items, lane.at, lane.read, lane.whole = {}, 1, 0, false
      lane.taken = suspects_too and 0 or nil
      step(lane)
    end
    pick_down_to(0)
    if #picked == limit then return true end
    if #picked == 0 or now - oldest < linger then return false end
    if lookahead > 0 then pick_down_to(-lookahead) end
    return true
  end

  local ready = not suspects_turn and pick_due(false)
  if not ready and #over_suspects > 0 then
    -- Nobody else is ready: the call is theirs.
    expired, of_suspects, picked = true, true, {}
    pick_over(over_suspects)
  elseif not ready and not pick_due(true) then
    -- When: the buffer's end, the next lease's end, or when `limit` ids will be due.
    local wait = linger
    if #picked > 0 then wait = math.min(wait, oldest + linger - now) end
    local next_lease = redis.call('ZRANGE', LEASED, 0, 0, 'WITHSCORES')
    if next_lease[2] then wait = math.min(wait, next_lease[2] - now) end
    local function due_within(ms)
      local due = 0
      for _, lane in ipairs(lanes) do
        due = due + redis.call('ZCOUNT', lane.key, '-inf', digits(now + ms))
      end
      return due
    end
    if wait > 0 and due_within(wait) >= limit then
      -- The moment is between low and high; 8 halvings of a 5 s linger leave 20 ms.
      local low, high = 0, wait
      for _ = 1, 8 do
        if high - low <= 1 then break end
        local middle = math.floor((low + high) / 2)
        if due_within(middle) >= limit then high = middle else low = middle end
      end
      wait = high
    end
    return { 'empty', now, math.max(1, wait), '' }
  end
end

-- Suspects that were given back travel apart from the others, in their halved batches. The most urgent
-- job says which of the two this batch is; the rest stays where it is.
if not expired and any_suspects then
  local ids = {}
  for i, job in ipairs(picked) do ids[i] = job[1] end
  local known = redis.call('HMGET', DELIVERIES, unpack(ids))
  of_suspects = known[1] and true or false
  local kept, most = {}, 0
  for i, job in ipairs(picked) do
    job[4] = tonumber(known[i] or 0)
    if (job[4] > 0) == of_suspects then
      most = math.max(most, job[4])
      if #kept < suspect_limit(most) then kept[#kept + 1] = job end
    end
  end
  if #kept < #picked then
    picked = kept
    for _, lane in ipairs(lanes) do lane.taken = nil end -- no longer the lane's first ones
  end
end

if expired then
  local TRIALS = key('trials')
  for _, job in ipairs(picked) do
    redis.call('HINCRBY', DELIVERIES, job[1], 1)
    -- Alone in its process when the lease ran out: its own failure.
    if redis.call('HGET', TRIALS, job[1]) == job[2] then redis.call('HINCRBY', FAILURES, job[1], 1) end
  end
  count(now, 'expired', #picked)
end
if of_suspects then
  redis.call('SET', TURNS, 0)
elseif any_suspects and redis.call('EXISTS', TURNS) == 1 then
  redis.call('INCR', TURNS)
end
if any_suspects and (expired or of_suspects) and redis.call('EXISTS', FAILURES) == 1 then
  local ids = {}
  for i, job in ipairs(picked) do ids[i] = job[1] end
  local known = redis.call('HMGET', FAILURES, unpack(ids))
  for i, job in ipairs(picked) do job[5] = tonumber(known[i] or 0) end
end

-- 3. Lease them. The fence is unique and rising, whatever the clock does.
local fence = math.max(now + lease, tonumber(redis.call('GET', key('fence')) or '0') + 1)
redis.call('SET', key('fence'), digits(fence))

local function lease_all(option)
  local adds = {}
  for i, job in ipairs(picked) do
    adds[2 * i - 1] = digits(fence)
    adds[2 * i] = job[1]
  end
  return in_chunks('ZADD', LEASED, option, adds)
end

if expired then
  lease_all('XX')
  -- Found in two places, leased wins: a stray copy must not be claimed beside it.
  local ids = {}
  for i, job in ipairs(picked) do ids[i] = job[1] end
  for _, lane in ipairs(lanes) do redis.call('ZREM', lane.key, unpack(ids)) end
else
  local leased = lease_all('NX')
  -- The picks leave the lanes, those found leased by somebody else too: leased wins.
  local by_lane = {}
  for _, job in ipairs(picked) do
    by_lane[job[3]] = by_lane[job[3]] or {}
    table.insert(by_lane[job[3]], job[1])
  end
  for _, lane in ipairs(lanes) do
    if lane.taken and lane.taken > 0 then
      redis.call('ZREMRANGEBYRANK', lane.key, 0, lane.taken - 1)
    elseif by_lane[lane.name] then
      in_chunks('ZREM', lane.key, nil, by_lane[lane.name])
    end
  end
  if leased < #picked then
    local ours, kept = {}, {}
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASED, digits(fence), digits(fence))) do ours[id] = true end
    for _, job in ipairs(picked) do
      if ours[job[1]] then
        ours[job[1]] = nil
        kept[#kept + 1] = job
      end
    end
    picked = kept
    if #picked == 0 then return { 'empty', now, 1, '' } end
  end
end

local lines = { digits(fence) .. ' ' .. digits(now) }
for i, job in ipairs(picked) do
  lines[i + 1] = table.concat(job, ' ')
end
record = table.concat(lines, '\n') .. '\n'
redis.call('SET', RECORD, record, 'PX', digits(fence - now))
count(now, 'claims', 1)
count(now, 'claimed', #picked)
return { 'batch', now, record }
