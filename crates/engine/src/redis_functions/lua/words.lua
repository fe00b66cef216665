-- What every function of the library shares: it stands first, and each function's file follows.
--
-- The functions are flagged no-writes, so a read-only user may call them, on a replica too:
--   redis-cli FCALL_RO twitter_updater_<what> 1 '{<namespace>}' [argument ...]
-- They answer lines of text as status replies, which redis-cli prints as they are: on a terminal each with its
-- number, elsewhere (and with --raw) bare. What a call costs does not grow with the ids there are: they are counted
-- by ZCARD and ZCOUNT, and read by rank up to a limit.

local SECOND, MINUTE, HOUR, DAY = 1000, 60000, 3600000, 86400000

-- The lines of one answer.
local out

local function say(line)
  out[#out + 1] = { ok = (string.gsub(line, ' +$', '')) }
end

-- The queue's clock, in whole milliseconds since the epoch.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A number as its decimal digits: tostring() would write 1.7e+12.
local function digits(number)
  return string.format('%.0f', number)
end

-- The same with commas, for people.
local function figure(number)
  local text, more = digits(number), nil
  repeat text, more = string.gsub(text, '^(-?%d+)(%d%d%d)', '%1,%2') until more == 0
  return text
end

-- In two units at the most: 1h 5m, 3s, 20ms.
local function span(ms)
  if ms < SECOND then return digits(math.max(0, ms)) .. 'ms' end
  local units = { { DAY, 'd' }, { HOUR, 'h' }, { MINUTE, 'm' }, { SECOND, 's' } }
  for i, unit in ipairs(units) do
    if ms >= unit[1] then
      local text, smaller = digits(math.floor(ms / unit[1])) .. unit[2], units[i + 1]
      local rest = smaller and math.floor(ms % unit[1] / smaller[1]) or 0
      if rest > 0 then text = text .. ' ' .. digits(rest) .. smaller[2] end
      return text
    end
  end
end

-- What a person wrote: 90s, 15m, 1h, 7d. Nil where it is none.
local function read_span(text)
  local number, unit = string.match(text, '^(%d+)([smhd])$')
  return number and tonumber(number) * ({ s = SECOND, m = MINUTE, h = HOUR, d = DAY })[unit]
end

local function time_of_day(ms)
  local seconds = math.floor(ms / SECOND) % 86400
  return string.format('%02d:%02d:%02d', math.floor(seconds / 3600), math.floor(seconds / 60) % 60, seconds % 60)
end

-- The Gregorian date of a count of days, by eras of 400 years that begin in March.
local function date(ms)
  local days = math.floor(ms / DAY) + 719468
  local era = math.floor(days / 146097)
  local of_era = days - era * 146097
  local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02d %s UTC', year, month, day, time_of_day(ms))
end

-- In one line, and without what would steer a terminal: a reason may quote anything.
local function plain(text)
  return (string.gsub(string.gsub(text, '%c', ' '), '\194[\128-\159]', ' '))
end

-- Characters, not bytes.
local function width(text)
  return select(2, string.gsub(text, '[^\128-\191]', ''))
end

local function cut(text, most)
  if width(text) <= most then return text end
  local kept = 0
  for at = 1, #text do
    local byte = string.byte(text, at)
    if byte < 128 or byte > 191 then kept = kept + 1 end
    if kept == most then return string.sub(text, 1, at - 1) .. '…' end
  end
end

-- Says rows as columns. `sides` has a letter per column: l or r.
local function table_of(sides, rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width(cell)) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local room = string.rep(' ', widths[i] - width(cell))
      cells[i] = string.sub(sides, i, i) == 'l' and cell .. room or room .. cell
    end
    say(table.concat(cells, '  '))
  end
end

-- A HASH as a table.
local function hash(name)
  local flat, fields = redis.call('HGETALL', name), {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

-- The lanes {name, set, patience}, most impatient first.
local function lanes_of(tag)
  local lanes = {}
  for name, patience in pairs(hash(tag .. ':lanes')) do
    lanes[#lanes + 1] = { name = name, set = tag .. ':delayed:' .. name, patience = tonumber(string.match(patience, '^%d+')) or 0 }
  end
  table.sort(lanes, function(a, b) return a.patience < b.patience or (a.patience == b.patience and a.name < b.name) end)
  return lanes
end

-- The first job of a sorted set and its score; nothing where it is empty.
local function first_of(set)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return first[1], tonumber(first[2])
end

-- A whole number that a person gave, within bounds; `default` where none was given.
local function number_of(text, default, most)
  if not text then return default end
  local number = string.match(text, '^%d+$') and tonumber(text)
  if not number or number < 1 or number > most then
    error(plain(text) .. ' is no number from 1 to ' .. digits(most), 0)
  end
  return number
end

-- Registers a function of the picture; it is given the tag, the arguments and the time.
local function shows(name, run)
  redis.register_function{
    function_name = 'twitter_updater_' .. name,
    flags = { 'no-writes' },
    callback = function(keys, args)
      local tag = keys[1]
      if #keys ~= 1 or not string.match(tag, '^{[^{}]+}$') then
        return { err = "ERR one key is needed, a tag in braces and quotes: 1 '" .. NAMESPACE .. "'" }
      end
      out = {}
      local done, problem = pcall(run, tag, args, now_ms())
      if not done then
        return type(problem) == 'table' and problem or { err = 'ERR ' .. tostring(problem) }
      end
      return out
    end,
  }
end
