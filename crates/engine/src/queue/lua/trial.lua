-- Notes that the jobs a claim holds are alone in their process. Flagged allow-oom.
--
-- ARGV   fence, token
-- returns how many those are
--
-- If this lease runs out, that is their own failure. A later lease has another fence, so a note that is
-- left over says nothing of it.

local fence, token = ARGV[1], ARGV[2]
if now_ms() >= tonumber(fence) then return 0 end
-- After a failover a claim that was lost may have had the same fence.
if redis.call('GETRANGE', key('claim:' .. token), 0, #fence) ~= fence .. ' ' then return 0 end
local ids = redis.call('ZRANGEBYSCORE', key('leased'), fence, fence)
for _, id in ipairs(ids) do
  redis.call('HSET', key('trials'), id, fence)
end
return #ids
