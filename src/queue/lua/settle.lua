-- Applies verdicts to the jobs a claim still holds; `release` is one of them. Flagged allow-oom.
--
-- ARGV   fence, token, then groups, each: verdict, lane, patience (ms), n, then n times: id, value
--          reschedule  value = delay (ms): due at now + delay in lane
--          retry       value = delay (ms), uncounted
--          suspect     value = delay (ms), counts a delivery
--          retry+      value = delay (ms), counts a delivery and a failure
--          release     value = the old due time (ms since the epoch), uncounted
--          finish      value unused
--          bury        value = reason
-- returns {settled, lost}
--
-- One ZRANGEBYSCORE tells which ids the claim still holds, since no other claim has its fence. (A failover may
-- lose a claim and set the clock back, and give its fence to another: its token is not on record then.) A
-- lease that ran out holds nothing, whether or not somebody has claimed the ids since.
-- The write that adds comes before the one that removes.

local fence, token = ARGV[1], ARGV[2]
local now = now_ms()
local LEASED, DELIVERIES, FAILURES = key('leased'), key('deliveries'), key('failures')

local held, n_held = {}, 0
if now < tonumber(fence) and redis.call('GETRANGE', key('claim:' .. token), 0, #fence) == fence .. ' ' then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', LEASED, fence, fence)) do
    held[id] = true
    n_held = n_held + 1
  end
end

local done, healthy, gone = {}, {}, {}
local lost = 0
local counted = {}

local at = 3
while at <= #ARGV do
  local verdict, lane, patience, n = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 4
  local adds, whys = {}, {}
  local before = #done
  for i = 0, n - 1 do
    local id, value = ARGV[at + 2 * i], ARGV[at + 2 * i + 1]
    if held[id] then
      held[id] = nil -- a second verdict on the same id is lost
      done[#done + 1] = id
      if verdict == 'reschedule' then
        adds[#adds + 1] = digits(now + value)
        adds[#adds + 1] = id
        healthy[#healthy + 1] = id
      elseif verdict == 'release' then
        adds[#adds + 1] = value
        adds[#adds + 1] = id
      elseif verdict == 'bury' then
        adds[#adds + 1] = digits(now)
        adds[#adds + 1] = id
        whys[#whys + 1] = id
        whys[#whys + 1] = value
        gone[#gone + 1] = id
      elseif verdict == 'finish' then
        gone[#gone + 1] = id
      else
        adds[#adds + 1] = digits(now + value)
        adds[#adds + 1] = id
        if verdict ~= 'retry' then redis.call('HINCRBY', DELIVERIES, id, 1) end
        if verdict == 'retry+' then redis.call('HINCRBY', FAILURES, id, 1) end
      end
    else
      lost = lost + 1
    end
  end
  at = at + 2 * n

  if #adds > 0 then
    if verdict == 'bury' then
      in_chunks('HSET', key('dead:why'), nil, whys)
      in_chunks('ZADD', key('dead'), nil, adds)
    else
      know_lane(lane, patience)
      in_chunks('ZADD', key('delayed:' .. lane), nil, adds)
    end
  end
  local word = (verdict == 'retry+' or verdict == 'suspect') and 'retry' or verdict
  counted[word] = (counted[word] or 0) + #done - before
end

-- Finish and Bury remove an id everywhere.
if #gone > 0 then
  for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
    in_chunks('ZREM', key('delayed:' .. lane), nil, gone)
  end
end
if #healthy + #gone > 0 and redis.call('EXISTS', DELIVERIES) == 1 then
  for _, known in ipairs({ DELIVERIES, FAILURES, key('trials') }) do
    if #healthy > 0 then in_chunks('HDEL', known, nil, healthy) end
    if #gone > 0 then in_chunks('HDEL', known, nil, gone) end
  end
end

if #done > 0 then
  if #done == n_held then
    redis.call('ZREMRANGEBYSCORE', LEASED, fence, fence)
    redis.call('DEL', key('claim:' .. token))
  else
    in_chunks('ZREM', LEASED, nil, done)
  end
end

count(now, 'rescheduled', counted['reschedule'] or 0)
count(now, 'retried', counted['retry'] or 0)
count(now, 'released', counted['release'] or 0)
count(now, 'finished', counted['finish'] or 0)
count(now, 'buried', counted['bury'] or 0)
count(now, 'lost', lost)
return { #done, lost }
