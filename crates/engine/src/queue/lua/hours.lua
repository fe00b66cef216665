-- The sums of some hours, the oldest first, as far as they are known. Flagged no-writes.
--
-- ARGV   how many hours ago the first one began and the last one: 0 is the current hour
-- returns per known hour {its start (ms since the epoch), counters flat, lateness flat}

local this = math.floor(now_ms() / 3600000)
local hours = {}
for hour = this - ARGV[1], this - ARGV[2] do
  local counters = redis.call('HGETALL', key('hour:' .. digits(hour)))
  if #counters > 0 then
    hours[#hours + 1] = { hour * 3600000, counters, redis.call('HGETALL', key('hour:lateness:' .. digits(hour))) }
  end
end
return hours
