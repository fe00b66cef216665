-- Makes jobs due earlier or moves them to another lane; of leased ones it writes a note, which settle.lua applies.
-- Or makes delayed jobs due later, in that lane, and leaves those that are due then or later, and the leased.
-- Not flagged allow-oom: a note adds.
--
-- ARGV   sooner or later; distinct ids, 1,000 at the most, in groups, each: lane, kind (lane_of), n, the n ids,
--        their n dues (due_at)
-- returns one letter per id, in order: m moved, n noted or left (leased), k kept (due then or later), d dead, a absent
--
-- The write that adds (the new lane) comes before the one that removes. An id that an interrupted script left in two
-- lanes is in one again after this.

local now = now_ms()
local LEASED, DEAD, PROMOTED = key('leased'), key('dead'), key('promoted')

-- The scores of the ids in a set, by place; none where there is no such set.
local function scores_of(set, first, last)
  return redis.call('EXISTS', set) == 1 and redis.call('ZMSCORE', set, unpack(ARGV, first, last)) or {}
end

-- Writes or updates notes {id, due, id, due, …}: the earlier due, the newer lane.
local function note(lane, kind, noted)
  local ids = {}
  for i = 1, #noted, 2 do ids[#ids + 1] = noted[i] end
  local values = {}
  for i, known in ipairs(redis.call('HMGET', PROMOTED, unpack(ids))) do
    local due = noted[2 * i]
    if known then due = math.min(due, tonumber(string.match(known, '^%d+') or due)) end
    values[2 * i - 1], values[2 * i] = ids[i], digits(due) .. ' ' .. kind .. ' ' .. lane
  end
  redis.call('HSET', PROMOTED, unpack(values))
end

local sooner = ARGV[1] == 'sooner'
local letters, promoted = {}, 0
local at = 2
while at <= #ARGV do
  local lane, kind, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local first, dues = at + 3, at + 3 + n
  local leased, dead = scores_of(LEASED, first, dues - 1), scores_of(DEAD, first, dues - 1)
  local lanes = {}
  for _, name in ipairs(redis.call('HKEYS', key('lanes'))) do
    lanes[#lanes + 1] = { name = name, scores = scores_of(key('delayed:' .. name), first, dues - 1), leaves = {} }
  end

  local adds, noted = {}, {} -- {due, id, …}, {id, due, …}
  for i = 1, n do
    local id, due = ARGV[first + i - 1], due_at(now, ARGV[dues + i - 1])
    local letter = 'a'
    if leased[i] then
      letter = 'n'
      if sooner then noted[#noted + 1], noted[#noted + 2] = id, due end
    elseif dead[i] then
      letter = 'd'
    else
      for _, of in ipairs(lanes) do
        if of.scores[i] then
          -- A score that a person wrote may have a fraction.
          local known = math.floor(tonumber(of.scores[i]))
          if not sooner and known >= due then
            letter = 'k'
          else
            letter = 'm'
            if sooner then due = math.min(due, known) end
            if of.name ~= lane then of.leaves[#of.leaves + 1] = id end
          end
        end
      end
      if letter == 'm' then adds[#adds + 1], adds[#adds + 2] = digits(due), id end
    end
    letters[#letters + 1] = letter
  end

  if #adds > 0 or #noted > 0 then know_lane(lane, kind) end
  if #adds > 0 then
    in_chunks('ZADD', key('delayed:' .. lane), nil, adds)
    for _, of in ipairs(lanes) do
      if #of.leaves > 0 then in_chunks('ZREM', key('delayed:' .. of.name), nil, of.leaves) end
    end
  end
  if #noted > 0 then note(lane, kind, noted) end
  promoted = promoted + (#adds + #noted) / 2
  at = dues + n
end

if sooner then count(now, { promoted = promoted }) end
return table.concat(letters)
