-- What every script shares. It stands before each script's own text.
--
-- KEYS[1] is the namespace's prefix, "{namespace}:". The other keys are built from it: which lanes
-- exist is known to the queue alone, and all of them share the prefix's slot. KEYS[2] never exists: with two keys
-- declared, no script runs while a cluster moves the slot (Call::new in backend/redis.rs).

local PREFIX = KEYS[1]

-- unpack() ends at 8,000 values; a thousand pairs stay well below.
local CHUNK = 1000

local function key(name)
  return PREFIX .. name
end

-- The queue's clock, in whole milliseconds since the epoch.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A number as its decimal digits: tostring() would write 1.7e+12.
local function digits(number)
  return string.format('%.0f', number)
end

-- Runs a command on any number of trailing values, a chunk at a time; answers the sum of the replies.
local function in_chunks(command, target, option, values)
  local sum = 0
  for first = 1, #values, CHUNK do
    local last = math.min(first + CHUNK - 1, #values)
    if option then
      sum = sum + redis.call(command, target, option, unpack(values, first, last))
    else
      sum = sum + redis.call(command, target, unpack(values, first, last))
    end
  end
  return sum
end

-- Adds to counters by name, for ever and for this minute. Minutes are kept for two hours.
local function count(now, counters)
  local stats, minute = key('stats'), key('rate:' .. digits(math.floor(now / 60000)))
  for name, by in pairs(counters) do
    if by ~= 0 then
      redis.call('HINCRBY', stats, name, by)
      if redis.call('HINCRBY', minute, name, by) == by then
        redis.call('EXPIRE', minute, 7200)
      end
    end
  end
end

-- When a job is due, ms since the epoch: a delay in ms, "@" and a moment in ms since the epoch, or both: the earlier one.
local function due_at(now, word)
  local delay = tonumber(word)
  if delay then return now + delay end
  local soon, at = string.match(word, '^(%d*)@(%d+)$')
  if soon == '' then return tonumber(at) end
  return math.min(now + soon, tonumber(at))
end

-- The same as the text that ZADD takes. Many jobs have one delay, which is added once, or a moment each, which is that text.
local MOMENT = string.byte('@')
local due_texts = {}
local function due_text(now, word)
  if string.byte(word) == MOMENT then return string.sub(word, 2) end
  if not due_texts[word] then due_texts[word] = digits(due_at(now, word)) end
  return due_texts[word]
end

-- A lane and its kind: "patience", or "patience:tier:order" where it is in another tier than 0, or its order is not that by
-- lateness but 'oldest' or 'newest' first. `timed`: its jobs can be late.
local function lane_of(name, kind)
  local lane = { name = name, key = key('delayed:' .. name), kind = kind, patience = tonumber(kind), tier = 0, timed = true }
  if not lane.patience then
    local patience, tier, order = string.match(kind, '^(%d+):(%d+):(%l+)$')
    lane.patience, lane.tier = tonumber(patience or 60000), tonumber(tier or 0)
    lane.timed, lane.newest = order ~= 'oldest' and order ~= 'newest', order == 'newest'
  end
  return lane
end

-- The lanes that hold or held jobs, by tier, most impatient first.
local function lanes_in_order()
  local lanes, flat = {}, redis.call('HGETALL', key('lanes'))
  for i = 1, #flat, 2 do lanes[#lanes + 1] = lane_of(flat[i], flat[i + 1]) end
  table.sort(lanes, function(a, b)
    if a.tier ~= b.tier then return a.tier < b.tier end
    return a.patience < b.patience or (a.patience == b.patience and a.name < b.name)
  end)
  return lanes
end

-- Writes down a lane and its kind, which travel with the jobs: also after a wiped Redis every
-- lane that holds a job is known to the next claim.
-- Without a kind (a job goes back where it came from) a lane that is known stays as it is.
local known_lanes -- read once: an answer may fill many
local function know_lane(lane, kind)
  if not known_lanes then
    known_lanes = {}
    local flat = redis.call('HGETALL', key('lanes'))
    for i = 1, #flat, 2 do known_lanes[flat[i]] = flat[i + 1] end
  end
  if kind == '' then
    if not known_lanes[lane] then redis.call('HSETNX', key('lanes'), lane, 60000) end
  elseif known_lanes[lane] ~= kind then
    redis.call('HSET', key('lanes'), lane, kind)
    known_lanes[lane] = kind
  end
end
