-- rates: what was done minute by minute. Minutes are kept for two hours.

-- How full the requests were that gave outcomes.
local function fill_of(counters)
  local requests = (counters.requests or 0) - (counters.requests_failed or 0)
  return requests > 0 and string.format('%.1f', (counters.looked_up or 0) / requests) or '-'
end

local COLUMNS = { 'requests', 'requests_failed', 'looked_up', 'scheduled', 'rescheduled', 'finished', 'expired', 'buried' }

local function say_rates(tag, now, minutes)
  local head = { 'minute', 'ids per request' }
  for _, name in ipairs(COLUMNS) do head[#head + 1] = (string.gsub(name, '_', ' ')) end
  local rows, this = { head }, math.floor(now / MINUTE)
  for minute = this - minutes, this do
    local counters = hash(tag .. ':rate:' .. digits(minute))
    local row = { string.sub(time_of_day(minute * MINUTE), 1, 5) .. (minute == this and ' so far' or ''), fill_of(counters) }
    for _, name in ipairs(COLUMNS) do row[#row + 1] = figure(tonumber(counters[name] or 0)) end
    rows[#rows + 1] = row
  end
  table_of('lrrrrrrrrr', rows)
end

shows('rates', function(tag, args, now)
  say_rates(tag, now, number_of(args[1], 15, 119))
end)
