-- Takes a batch of due jobs under a lease, if one is ready. Flagged allow-oom.
--
-- ARGV   token, limit, linger (ms), lookahead (share of a lane's patience), lease (ms), early (share of a
--        lane's patience)
-- returns {'batch', now, 0, record}, or {'empty', now, wait (ms), reason of a pause or ''}
--        record: a line "fence claimed_at", with " over" behind it for leases that ran out, then a line per run of jobs
--        that are alike: "lane kind deliveries failures id due id due …"
--
-- The write that adds (leased) comes before the one that removes (delayed).
--
-- What it costs is mostly the four sorted-set commands of a batch, so nothing else is done id by id in Lua
-- while all is well: ids and due times go from ZRANGE's answer into the record in one piece, and into ZADD
-- by writing the fence over each due time.

local token = ARGV[1]
local limit, linger, lookahead, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local early = tonumber(ARGV[6])
local now = now_ms()
local LEASED, DELIVERIES, FAILURES = key('leased'), key('deliveries'), key('failures')
local TURNS, FENCE, RECORD = key('turns'), key('fence'), key('claim:' .. token)

local record, paused, last_fence, turns = unpack(redis.call('MGET', RECORD, key('paused'), FENCE, TURNS))

-- A record, less what is not among these ids.
local function kept_of(whole, ids)
  local head, lines = string.match(whole, '^([^\n]*)\n(.*)$')
  local kept = { head }
  for run, jobs in string.gmatch(lines, '(%S+ %S+ %S+ %S+)([^\n]*)\n') do
    for id, due in string.gmatch(jobs, ' (%S+) (%S+)') do
      if ids[id] then kept[#kept + 1] = run .. ' ' .. id .. ' ' .. due end
    end
  end
  return table.concat(kept, '\n') .. '\n', #kept - 1
end

-- The same token again: the first reply was lost. Answer the batch, less what it no longer holds.
if record then
  local fence = string.match(record, '^%d+')
  if tonumber(fence) > now then
    local held = {}
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASED, fence, fence)) do held[id] = true end
    local kept, n = kept_of(record, held)
    if n > 0 then
      return { 'batch', now, 0, kept }
    end
  end
end

if paused then
  return { 'empty', now, linger, paused }
end

local lanes = lanes_in_order()

-- Batches with suspects are halved per delivery, so that the id that kills its worker is soon alone.
local function suspect_limit(deliveries)
  return math.max(1, math.floor(limit / 2 ^ deliveries))
end

-- Suspects (jobs with deliveries) have a call of their own in four while others wait.
local OTHERS_FIRST = 3
local any_suspects = redis.call('EXISTS', DELIVERIES) == 1
local suspects_turn = not any_suspects or tonumber(turns or OTHERS_FIRST) >= OTHERS_FIRST

-- The first n ids of {id, score, id, score, …}.
local function ids_of(jobs, n)
  local ids = {}
  for i = 1, n do ids[i] = jobs[2 * i - 1] end
  return ids
end

-- Which of the first n have deliveries: their number or false, by place.
local function deliveries_of(jobs, n)
  return n > 0 and redis.call('HMGET', DELIVERIES, unpack(ids_of(jobs, n))) or {}
end

-- What is taken: runs {lane, deliveries, failures, jobs = {id, due, …}, n}.
local runs, taken = {}, 0

local function take(lane, deliveries, jobs, n)
  runs[#runs + 1] = { lane = lane, deliveries = deliveries, failures = 0, jobs = jobs, n = n }
  taken = taken + n
end

-- 1. Leases that ran out: at once, exempt from linger, and by themselves. Half a batch at the most,
-- since each has a delivery to its name now. Those that ran out for the first time go first; suspects
-- wait for their turn.
local over, over_suspects = {}, {} -- {id, the lease's end as text, deliveries before}
do
  local most = math.min(2 * limit, 5 * CHUNK)
  local flat = redis.call('ZRANGEBYSCORE', LEASED, '-inf', digits(now), 'WITHSCORES', 'LIMIT', 0, most)
  if #flat > 0 then
    for i, known in ipairs(deliveries_of(flat, #flat / 2)) do
      local to = known and over_suspects or over
      to[#to + 1] = { flat[2 * i - 1], flat[2 * i], tonumber(known or 0) }
    end
  end
end

local expired, of_suspects = false, false
local function take_over(jobs)
  expired = true
  local first_lane = lanes[1] or lane_of('default', '60000')
  local most = 0
  for _, job in ipairs(jobs) do
    local deliveries = job[3] + 1
    most = math.max(most, deliveries)
    if taken >= suspect_limit(most) then break end
    take(first_lane, deliveries, { job[1], job[2] }, 1)
  end
end

if #over > 0 then
  take_over(over)
elseif #over_suspects > 0 and suspects_turn then
  of_suspects = true
  take_over(over_suspects)
end

-- How long nothing can be ready: until the buffer's end, the next lease's end, or `limit` ids are due.
local function time_to_wait(oldest)
  local wait = linger
  if oldest then wait = math.min(wait, oldest + linger - now) end
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
  return math.max(1, wait)
end

if not expired then
  -- 2. Due jobs of all lanes, the most urgent first: pick.lua.
  local pick_due, rank = picker(lanes, now, limit, linger, lookahead, early, deliveries_of, any_suspects)
  local ready = not suspects_turn and pick_due(false)
  if not ready and #over_suspects > 0 then
    -- No other job is ready: the call is theirs.
    of_suspects = true
    take_over(over_suspects)
  elseif not ready then
    local oldest
    ready, oldest = pick_due(true)
    -- No suspect is due: their turn goes to the others.
    if not ready and early > 0 and any_suspects and suspects_turn then ready, oldest = pick_due(false) end
    if not ready then return { 'empty', now, time_to_wait(oldest), '' } end
  end

  if not expired and not any_suspects then
    for _, lane in ipairs(lanes) do
      if lane.n > 0 then
        take(lane, 0, lane.jobs, lane.n)
        lane.leave = lane.n
      end
    end
  elseif not expired then
    -- Suspects that were given back travel apart from the others, in their halved batches. The most urgent
    -- job says which of the two this batch is; the rest stays where it is.
    local picked = {} -- {group, figure, lane, id, due, deliveries}
    for _, lane in ipairs(lanes) do
      local known = deliveries_of(lane.jobs, lane.n)
      for i = 1, lane.n do
        local id, due = lane.jobs[2 * i - 1], lane.jobs[2 * i]
        local group, figure = rank(lane, i)
        picked[#picked + 1] = { group, figure, lane, id, due, tonumber(known[i] or 0) }
      end
    end
    -- Each lane's are in order, and stay so among equals.
    for place, job in ipairs(picked) do job[7] = place end
    table.sort(picked, function(a, b)
      if a[1] ~= b[1] then return a[1] < b[1] end
      return a[2] > b[2] or (a[2] == b[2] and a[7] < b[7])
    end)
    of_suspects = picked[1][6] > 0
    local most, others = 0, {}
    for _, job in ipairs(picked) do
      local lane = job[3]
      if of_suspects and job[6] > 0 then
        most = math.max(most, job[6])
        if taken < suspect_limit(most) then take(lane, job[6], { job[4], job[5] }, 1) end
      elseif not of_suspects and job[6] == 0 then
        others[lane] = others[lane] or {}
        table.insert(others[lane], job[4])
        table.insert(others[lane], job[5])
      end
    end
    for _, lane in ipairs(lanes) do
      if others[lane] then take(lane, 0, others[lane], #others[lane] / 2) end
    end
  end
end

if expired then
  local TRIALS = key('trials')
  for _, run in ipairs(runs) do
    redis.call('HINCRBY', DELIVERIES, run.jobs[1], 1)
    -- Alone in its process when the lease ran out: its own failure.
    if redis.call('HGET', TRIALS, run.jobs[1]) == run.jobs[2] then
      redis.call('HINCRBY', FAILURES, run.jobs[1], 1)
    end
    -- It was due when that lease began. The lease's end may be in the future: once a clock that is ahead is set right.
    run.jobs[2] = digits(math.max(0, run.jobs[2] - lease))
  end
  count(now, { expired = taken })
end
if of_suspects then
  redis.call('SET', TURNS, 0)
elseif turns and tonumber(turns) < OTHERS_FIRST then
  redis.call('INCR', TURNS) -- also while there are none: the next one finds its turn come
end
if (expired or of_suspects) and redis.call('EXISTS', FAILURES) == 1 then
  for _, run in ipairs(runs) do
    run.failures = tonumber(redis.call('HGET', FAILURES, run.jobs[1]) or 0)
  end
end

-- 3. Lease them. The fence is unique and rising, whatever the clock does.
local fence = math.max(now + lease, tonumber(last_fence or '0') + 1)
local deadline = digits(fence)
redis.call('SET', FENCE, deadline)

local words = { deadline, ' ', digits(now), expired and ' over\n' or '\n' }
for _, run in ipairs(runs) do
  for _, word in ipairs({ run.lane.name, run.lane.kind, run.deliveries, run.failures }) do
    words[#words + 1] = word
    words[#words + 1] = ' '
  end
  words[#words + 1] = table.concat(run.jobs, ' ', 1, 2 * run.n)
  words[#words + 1] = '\n'
end
record = table.concat(words)

-- The fence goes where the due times were: the fence and all but the last of those is what ZADD takes. Behind the first
-- run's jobs stand those of all others: a command more costs more than its ids.
local function lease_all(option)
  local jobs, last, leased = runs[1].jobs, 2 * runs[1].n, 0
  for at = 2, #runs do
    local run = runs[at]
    for i = 1, 2 * run.n, 2 do
      jobs[last + i], jobs[last + i + 1] = run.jobs[i], deadline
    end
    last = last + 2 * run.n
  end
  for i = 2, 2 * runs[1].n, 2 do jobs[i] = deadline end
  for first = 1, last, 2 * CHUNK do
    leased = leased
      + redis.call('ZADD', LEASED, option, deadline, unpack(jobs, first, math.min(first + 2 * CHUNK, last + 1) - 2))
  end
  return leased
end

if expired then
  lease_all('XX')
  -- Found in two places, leased wins: a stray copy must not be claimed beside it.
  local ids = {}
  for i, run in ipairs(runs) do ids[i] = run.jobs[1] end
  for _, lane in ipairs(lanes) do redis.call('ZREM', lane.key, unpack(ids)) end
else
  local leased = lease_all('NX')
  -- The picks leave the lanes, and so do those that another claim has leased: leased wins.
  for _, lane in ipairs(lanes) do
    if lane.leave and lane.newest then
      in_chunks('ZREM', lane.key, nil, ids_of(lane.jobs, lane.leave))
    elseif lane.leave then
      redis.call('ZREMRANGEBYRANK', lane.key, 0, lane.leave - 1) -- the picks are its first ones
    end
  end
  if any_suspects then
    for _, run in ipairs(runs) do
      in_chunks('ZREM', run.lane.key, nil, ids_of(run.jobs, run.n))
    end
  end
  if leased < taken then
    if leased == 0 then return { 'empty', now, 1, '' } end
    local ours = {}
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASED, deadline, deadline)) do ours[id] = true end
    record, taken = kept_of(record, ours), leased
  end
end

redis.call('SET', RECORD, record, 'PX', digits(fence - now))
count(now, { claims = 1, claimed = taken })
return { 'batch', now, 0, record }
