-- Reads the head of `incoming` for one drainer at a time. Two at once would do no harm, only the same
-- work twice, so the place is held for a few seconds and renewed by each read.
--
-- ARGV   drainer, limit, hold (ms)
-- returns member, score, … ; empty when there is nothing or another drainer is at it

local holder = redis.call('GET', key('incoming:drainer'))
if holder and holder ~= ARGV[1] then return {} end
local members = redis.call('ZRANGE', key('incoming'), 0, ARGV[2] - 1, 'WITHSCORES')
if #members > 0 then
  redis.call('SET', key('incoming:drainer'), ARGV[1], 'PX', ARGV[3])
end
return members
