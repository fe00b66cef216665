-- Adds jobs that are in none of the places. Not flagged allow-oom: a full Redis refuses new jobs and
-- still drains. With 'dead', it takes the dead for nowhere and leaves none of the ids among them (`exhume`).
--
-- ARGV   'dead' to exhume or '', then distinct ids, 1,000 at the most, in groups, each: lane,
--        kind (lane_of), n, the n ids, their n dues (due_at)
-- returns one letter per id, in order: s scheduled, k known (delayed already), l leased, d dead

local now = now_ms()
local exhume = ARGV[1] == 'dead'
local answer = {}
local scheduled, exhumed = 0, 0

-- The places that hold ids, and what their answers say.
local function places()
  local all = { { key('leased'), 'l' } }
  if not exhume then all[2] = { key('dead'), 'd' } end
  for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
    all[#all + 1] = { key('delayed:' .. lane), 'k' }
  end
  local held = {}
  for _, place in ipairs(all) do
    if redis.call('EXISTS', place[1]) == 1 then held[#held + 1] = place end
  end
  return held
end

-- The letters of those of the ids that are somewhere.
local function look_for(first, last)
  local found = {}
  for _, place in ipairs(places()) do
    local scores = redis.call('ZMSCORE', place[1], unpack(ARGV, first, last))
    for i = 1, #scores do
      if scores[i] and not found[i] then found[i] = place[2] end
    end
  end
  return found
end

local at = 2
while at <= #ARGV do
  local lane, kind, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local first = at + 3
  local dues = first + n
  know_lane(lane, kind)

  local found = look_for(first, dues - 1)
  local adds, pairs_of = {}, 0
  for i = 0, n - 1 do
    local letter = found[i + 1]
    if not letter then
      adds[pairs_of + 1], adds[pairs_of + 2] = due_text(now, ARGV[dues + i]), ARGV[first + i]
      pairs_of = pairs_of + 2
    end
  end
  if pairs_of == 2 * n then
    answer[#answer + 1] = string.rep('s', n)
  else
    for i = 1, n do
      answer[#answer + 1] = found[i] or 's'
    end
  end
  if pairs_of > 0 then
    scheduled = scheduled + in_chunks('ZADD', key('delayed:' .. lane), 'NX', adds)
  end
  if exhume and redis.call('EXISTS', key('dead')) == 1 then
    exhumed = exhumed + redis.call('ZREM', key('dead'), unpack(ARGV, first, dues - 1))
    redis.call('HDEL', key('dead:why'), unpack(ARGV, first, dues - 1))
  end
  at = dues + n
end

count(now, { scheduled = scheduled, exhumed = exhumed })
return table.concat(answer)
