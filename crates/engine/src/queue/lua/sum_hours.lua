-- Adds each minute that is over to its hour, once: `hour:until` is the last one that was added. Flagged allow-oom.
--
-- ARGV   how many minutes are kept, how many hours
-- returns nothing

local this, minutes_kept, hours_kept = math.floor(now_ms() / 60000), tonumber(ARGV[1]), tonumber(ARGV[2])
local last = tonumber(redis.call('GET', key('hour:until')) or 0)
-- All are added, or the clock stepped back and these minutes come a second time.
if last >= this - 1 and last <= this + minutes_kept then return false end
-- One that is far ahead: the clock was wrong.
local first = math.max(math.min(last, this - 1) + 1, this - minutes_kept + 1)

-- The values of that hash are added to those in `sums`.
local function add(sums, hash)
  local flat = redis.call('HGETALL', hash)
  for i = 1, #flat, 2 do sums[flat[i]] = (sums[flat[i]] or 0) + flat[i + 1] end
end

local hours = {}
for minute = first, this - 1 do
  local hour = math.floor(minute / 60)
  local sums = hours[hour] or { counters = { minutes = 0 }, lateness = {} }
  hours[hour] = sums
  sums.counters.minutes = sums.counters.minutes + 1
  add(sums.counters, key('rate:' .. digits(minute)))
  add(sums.lateness, key('lateness:' .. digits(minute)))
end
for hour, sums in pairs(hours) do
  for name, of in pairs(sums) do
    local hash = key((name == 'counters' and 'hour:' or 'hour:lateness:') .. digits(hour))
    for field, by in pairs(of) do redis.call('HINCRBY', hash, field, digits(by)) end
    redis.call('EXPIRE', hash, hours_kept * 3600)
  end
end
redis.call('SET', key('hour:until'), digits(this - 1), 'EX', hours_kept * 3600)
return false
