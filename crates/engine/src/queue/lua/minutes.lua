-- What was done in the last minutes, the current one last. Flagged no-writes.
--
-- ARGV   how many minutes
-- returns per minute {its start (ms since the epoch), counters flat, lateness flat}

local this = math.floor(now_ms() / 60000)
local minutes = {}
for minute = this - ARGV[1] + 1, this do
  local name = digits(minute)
  minutes[#minutes + 1] = {
    minute * 60000, redis.call('HGETALL', key('rate:' .. name)), redis.call('HGETALL', key('lateness:' .. name)),
  }
end
return minutes
