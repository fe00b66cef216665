-- Adds jobs that are in none of the places. Not flagged allow-oom: a full Redis refuses new jobs and
-- still drains. Told so, it takes the dead for nowhere and leaves none of the ids among them (`exhume`).
--
-- ARGV   'dead' to exhume or '', then distinct ids, in groups, each: lane, patience (ms), n, then n
--        times: id, delay (ms)
-- returns one letter per id, in order: s scheduled, k known (delayed already), l leased, d dead

local now = now_ms()
local exhume = ARGV[1] == 'dead'
local answer = {}
local scheduled, exhumed = 0, 0

local at = 2
while at <= #ARGV do
  local lane, patience, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  know_lane(lane, patience)

  local places = { { key('leased'), 'l' } }
  if not exhume then places[2] = { key('dead'), 'd' } end
  for _, other in ipairs(redis.call('HKEYS', key('lanes'))) do
    places[#places + 1] = { key('delayed:' .. other), 'k' }
  end

  for first = 0, n - 1, CHUNK / 2 do
    local last = math.min(first + CHUNK / 2, n) - 1
    local ids, found = {}, {}
    for i = first, last do
      ids[#ids + 1] = ARGV[at + 2 * i]
    end
    for _, place in ipairs(places) do
      if redis.call('EXISTS', place[1]) == 1 then
        for i, score in ipairs(redis.call('ZMSCORE', place[1], unpack(ids))) do
          if score and not found[i] then found[i] = place[2] end
        end
      end
    end

    local adds = {}
    for i, id in ipairs(ids) do
      if not found[i] then
        adds[#adds + 1] = digits(now + ARGV[at + 2 * (first + i - 1) + 1])
        adds[#adds + 1] = id
      end
      answer[#answer + 1] = found[i] or 's'
    end
    if #adds > 0 then
      scheduled = scheduled + in_chunks('ZADD', key('delayed:' .. lane), 'NX', adds)
    end
    if exhume and redis.call('EXISTS', key('dead')) == 1 then
      exhumed = exhumed + redis.call('ZREM', key('dead'), unpack(ids))
      redis.call('HDEL', key('dead:why'), unpack(ids))
    end
  end
  at = at + 2 * n
end

count(now, { scheduled = scheduled, exhumed = exhumed })
return table.concat(answer)
