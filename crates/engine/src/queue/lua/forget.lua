-- Takes ids out of every place but a lease, with what is counted and noted of them, and out of the recorded errors. Flagged
-- allow-oom: it adds nothing.
--
-- ARGV   distinct ids

local DELIVERIES, FAILURES = key('deliveries'), key('failures')
local places = { key('dead') }
for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
  places[#places + 1] = key('delayed:' .. lane)
end

for first = 1, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  for _, place in ipairs(places) do redis.call('ZREM', place, unpack(ARGV, first, last)) end
  redis.call('HDEL', key('dead:why'), unpack(ARGV, first, last))
  redis.call('HDEL', key('promoted'), unpack(ARGV, first, last))
  -- Put in again, it is a new job: its failures of before would have it travel apart, or die at once.
  for i, score in ipairs(redis.call('ZMSCORE', key('leased'), unpack(ARGV, first, last))) do
    if not score then
      redis.call('HDEL', DELIVERIES, ARGV[first + i - 1])
      redis.call('HDEL', FAILURES, ARGV[first + i - 1])
    end
  end
end

if redis.call('EXISTS', key('errors')) == 1 then
  local names = {}
  for i = 1, #ARGV do names[string.lower(ARGV[i])] = true end
  blank_errors(names)
end
return 0
