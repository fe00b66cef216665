-- What the scripts about reads share: days, periods, and the counts of them. It stands before their own text.

local DAY = 86400000
-- Days whose counts are kept: more than the longest period has.
local DAYS_KEPT = 62

-- Year, month (1 to 12) and day of the month of a number of days since the epoch, and the way back, in which
-- month 0 is the December before and 13 the January after. Howard Hinnant's: years that begin in March.
local function civil(day)
  day = day + 719468
  local era = math.floor(day / 146097)
  local of_era = day - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524)
    - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local month = from_march < 10 and from_march + 3 or from_march - 9
  return year + era * 400 + (month <= 2 and 1 or 0), month, of_year - math.floor((153 * from_march + 2) / 5) + 1
end

local function day_of(year, month, of_month)
  local months = year * 12 + month - 1
  year, month = math.floor(months / 12), months % 12 + 1
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local of_era = year - era * 400
  local of_year = math.floor((153 * (month > 2 and month - 3 or month + 9) + 2) / 5) + of_month - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

-- The period in which a read counts for that day: its first day and the one after its last, or its length and number.
local function span_of(day, now, length, from_day)
  if length == 0 then
    local year, month, of_month = civil(day)
    if of_month < from_day then month = month - 1 end
    return { from = day_of(year, month, from_day), to = day_of(year, month + 1, from_day) }
  end
  if length % DAY == 0 then
    local days = length / DAY
    local from = math.floor(day / days) * days
    return { from = from, to = from + days }
  end
  return { length = length, number = math.floor(now / length) }
end

-- The days for which a call that goes out now may be charged: one, or two around midnight.
local function days_of(now, length, from_day, margin)
  local first, last = math.floor((now - margin) / DAY), math.floor((now + margin) / DAY)
  local days = { { day = first, span = span_of(first, now, length, from_day) } }
  if last ~= first then
    local span = span_of(last, now, length, from_day)
    if span.number or span.from == days[1].span.from then span = days[1].span end
    days[2] = { day = last, span = span }
  end
  for _, at in ipairs(days) do at.charged = key('charged:' .. digits(at.day)) end
  return days
end

local function reads_of(span)
  if span.number then
    local kept = redis.call('HMGET', key('period:' .. digits(span.length)), 'number', 'reads')
    return kept[1] == digits(span.number) and tonumber(kept[2]) or 0
  end
  local fields, sum = {}, 0
  for day = span.from, span.to - 1 do fields[#fields + 1] = digits(day) end
  for _, reads in ipairs(redis.call('HMGET', key('reads'), unpack(fields))) do sum = sum + tonumber(reads or 0) end
  return sum
end

-- Adds `by` to the reads of a day, and removes days older than any period.
local function count_reads(at, by)
  local reads = key('reads')
  if redis.call('HINCRBY', reads, digits(at.day), by) == by then
    for _, day in ipairs(redis.call('HKEYS', reads)) do
      if tonumber(day) < at.day - DAYS_KEPT then redis.call('HDEL', reads, day) end
    end
  end
  -- A day longer: within the margin of its end it still counts, and what is taken back late is found.
  redis.call('PEXPIREAT', at.charged, digits((at.day + 2) * DAY))
  if at.span.number then
    local period, number = key('period:' .. digits(at.span.length)), digits(at.span.number)
    if redis.call('HGET', period, 'number') ~= number then redis.call('HSET', period, 'number', number, 'reads', 0) end
    redis.call('HINCRBY', period, 'reads', by)
    redis.call('PEXPIREAT', period, digits((at.span.number + 1) * at.span.length + 3600000))
  end
end

-- In which part of a day a read was counted, to find it again.
local function part_of(at)
  return at.span.number and digits(at.span.length) .. ':' .. digits(at.span.number) or ''
end
