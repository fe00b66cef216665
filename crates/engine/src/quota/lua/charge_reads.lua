-- What came of the ids of a call. Flagged allow-oom.
--
-- ARGV   call, length of the period (ms; 0: a month), the day a month begins on, margin (ms), how many ids were not
--        read, these, then pairs of ids: one that was asked for, and the one that it was read as
-- returns nothing
--
-- Only what this call alone has counted is taken back, and once.

local call, now = ARGV[1], now_ms()
local unread = tonumber(ARGV[5])
local today = math.floor(now / DAY)

-- Takes an id back; where another was read for it, that takes its place.
local function take_back(id, read)
  for day = today - 1, today + 1 do
    local charged = key('charged:' .. digits(day))
    local by = redis.call('HGET', charged, id)
    if by and string.sub(by, 1, #call + 1) == call .. ' ' then
      if not read or redis.call('HSETNX', charged, read, '') == 0 then
        redis.call('HINCRBY', key('reads'), digits(day), -1)
        local length, number = string.match(by, ' (%d+):(%d+)$')
        local period = length and key('period:' .. length)
        if period and redis.call('HGET', period, 'number') == number then redis.call('HINCRBY', period, 'reads', -1) end
      end
      redis.call('HDEL', charged, id)
    end
  end
end

for i = 6, 5 + unread do take_back(ARGV[i]) end
for i = 6 + unread, #ARGV, 2 do
  take_back(ARGV[i], ARGV[i + 1])
  -- Also for a day on which the asked id was another call's.
  for _, at in ipairs(days_of(now, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))) do
    if redis.call('HSETNX', at.charged, ARGV[i + 1], '') == 1 then count_reads(at, 1) end
  end
end
return false
