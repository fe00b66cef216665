-- Applies verdicts to the jobs a claim still holds; `release` is one of them. Flagged allow-oom.
--
-- ARGV   fence, token, number of tallies, counter, by, …, then groups, each: verdict, lane, kind (lane_of), n, m, then n ids,
--        then m values: one for all of them, or one for each
--          reschedule  value = when it is due in lane (due_at)
--          retry       value = delay (ms), uncounted
--          suspect     value = delay (ms), counts a delivery
--          retry+      value = delay (ms), counts a delivery and a failure
--          release     value = its old due time (ms since the epoch), uncounted
--          finish      no value
--          bury        value = reason
-- returns {settled, lost}
--
-- The tallies are added to the counters when at least one verdict was applied, so a repeated settle counts nothing.
-- A promoted job takes its noted lane and the earlier due, whatever lane and due the verdict has. Its note is deleted
-- last: a settle that is repeated after it was interrupted finds the note again.
--
-- One ZRANGEBYSCORE tells which ids the claim still holds, since no other claim has its fence. (A failover may
-- lose a claim and set the clock back, and give its fence to another: its token is not on record then.) A
-- lease that ran out holds nothing, whether or not another worker has claimed the ids since.
-- The write that adds comes before the one that removes.

local fence, token = ARGV[1], ARGV[2]
local now = now_ms()
local LEASED, DELIVERIES, FAILURES = key('leased'), key('deliveries'), key('failures')
local PROMOTED = key('promoted')
local RECORD = key('claim:' .. token)

-- What the claim holds: true, and false once it is settled.
local held, n_held = {}, 0
-- The notes of promoted ones, while there are any at all: by id.
local notes, noted_ids = nil, {}
if now < tonumber(fence) and redis.call('GETRANGE', RECORD, 0, #fence) == fence .. ' ' then
  local ids = redis.call('ZRANGEBYSCORE', LEASED, fence, fence)
  n_held = #ids
  for i = 1, n_held do held[ids[i]] = true end
  if n_held > 0 and redis.call('EXISTS', PROMOTED) == 1 then
    notes = {}
    for first = 1, n_held, CHUNK do
      local last = math.min(first + CHUNK - 1, n_held)
      for i, note in ipairs(redis.call('HMGET', PROMOTED, unpack(ids, first, last))) do
        if note then
          local due, kind, lane = string.match(note, '^(%d+) (%S+) (.*)$')
          notes[ids[first + i - 1]] = due and { due = tonumber(due), kind = kind, lane = lane }
        end
      end
    end
  end
end

local any_suspects = redis.call('EXISTS', DELIVERIES) == 1
local settled, lost = 0, 0
local healthy, gone = {}, {}
local counters = {}

-- Puts a promoted job into its noted lane.
local function put_noted(note, id, due)
  -- A lane that is known by now has a kind that is newer than the note's.
  redis.call('HSETNX', key('lanes'), note.lane, note.kind)
  redis.call('ZADD', key('delayed:' .. note.lane), digits(math.min(note.due, tonumber(due))), id)
end

-- Where a job goes by its verdict and value: its score in its lane, or among the dead.
local function score_of(verdict, value)
  if verdict == 'finish' then return nil end
  if verdict == 'bury' then return digits(now) end
  return verdict == 'release' and value or due_text(now, value)
end

local tallied = 3 + 2 * ARGV[3]
local at = tallied + 1
while at <= #ARGV do
  local verdict, lane, kind, n, m = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local first, values = at + 5, at + 5 + n
  local stays = verdict ~= 'finish' and verdict ~= 'bury'
  local shared = m <= 1 and score_of(verdict, ARGV[values])
  -- The ids once more, where there is more to do than to put them into a lane.
  local ids = (any_suspects or (verdict ~= 'release' and verdict ~= 'reschedule')) and {} or nil

  local adds, last, done = {}, 0, 0 -- {score, id, …}
  for i = 0, n - 1 do
    local id = ARGV[first + i]
    if held[id] then
      held[id] = false -- a second verdict on the same id is lost
      done = done + 1
      local score, note = shared or score_of(verdict, ARGV[values + i]), notes and notes[id]
      if note then noted_ids[#noted_ids + 1] = id end
      if note and stays then
        put_noted(note, id, score)
      elseif score then
        adds[last + 1], adds[last + 2] = score, id
        last = last + 2
      end
      if verdict == 'bury' then redis.call('HSET', key('dead:why'), id, ARGV[values + (m > 1 and i or 0)]) end
      if ids then ids[#ids + 1] = id end
    else
      lost = lost + 1
    end
  end
  at = values + m
  settled = settled + done

  if done > 0 then
    if verdict == 'bury' then
      in_chunks('ZADD', key('dead'), nil, adds)
    elseif last > 0 then
      know_lane(lane, kind)
      in_chunks('ZADD', key('delayed:' .. lane), nil, adds)
    end

    if verdict == 'suspect' or verdict == 'retry+' then
      for _, id in ipairs(ids) do
        redis.call('HINCRBY', DELIVERIES, id, 1)
        if verdict == 'retry+' then redis.call('HINCRBY', FAILURES, id, 1) end
      end
    elseif verdict == 'finish' or verdict == 'bury' then
      for _, id in ipairs(ids) do gone[#gone + 1] = id end
    elseif verdict == 'reschedule' and ids then
      for _, id in ipairs(ids) do healthy[#healthy + 1] = id end
    end
    counters[verdict] = (counters[verdict] or 0) + done
  end
end

-- Finish and Bury remove an id everywhere.
if #gone > 0 then
  for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
    in_chunks('ZREM', key('delayed:' .. lane), nil, gone)
  end
end
if any_suspects then
  for _, known in ipairs({ DELIVERIES, FAILURES, key('trials') }) do
    if #healthy > 0 then in_chunks('HDEL', known, nil, healthy) end
    if #gone > 0 then in_chunks('HDEL', known, nil, gone) end
  end
end

if settled > 0 and settled == n_held then
  redis.call('ZREMRANGEBYSCORE', LEASED, fence, fence)
  redis.call('DEL', RECORD)
elseif settled > 0 then
  local ids = {}
  for id, is_held in pairs(held) do
    if not is_held then ids[#ids + 1] = id end
  end
  in_chunks('ZREM', LEASED, nil, ids)
end

if #noted_ids > 0 then in_chunks('HDEL', PROMOTED, nil, noted_ids) end

local counted = {
  rescheduled = counters['reschedule'] or 0,
  retried = (counters['retry'] or 0) + (counters['retry+'] or 0) + (counters['suspect'] or 0),
  released = counters['release'] or 0,
  finished = counters['finish'] or 0,
  buried = counters['bury'] or 0,
  lost = lost,
}
if settled > 0 then
  for i = 4, tallied, 2 do counted[ARGV[i]] = (counted[ARGV[i]] or 0) + ARGV[i + 1] end
end
count(now, counted)
return { settled, lost }
