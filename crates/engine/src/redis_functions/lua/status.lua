-- status: the whole picture.

-- How many minutes of counters it shows, and the current one.
local MINUTES = 3
-- Of how many of the dead, the last ones, it reads the reasons, and how many reasons it names.
local REASONS_READ, REASONS_SAID = 1000, 5
-- Until when, from now: the brackets after what is overdue.
local BRACKETS = { { MINUTE, '1m' }, { 5 * MINUTE, '5m' }, { HOUR, '1h' }, { DAY, '1d' } }

local function say_delayed(lanes, now)
  local head = { 'scheduled', 'interval', 'all', 'overdue' }
  for i, bracket in ipairs(BRACKETS) do head[#head + 1] = (i == 1 and 'in ' or 'to ') .. bracket[2] end
  head[#head + 1] = 'later'
  local rows, sums = { head }, {}
  for _, lane in ipairs(lanes) do
    local all, below = redis.call('ZCARD', lane.set), redis.call('ZCOUNT', lane.set, '-inf', digits(now))
    local counts = { all, below }
    for _, bracket in ipairs(BRACKETS) do
      local within = redis.call('ZCOUNT', lane.set, '-inf', digits(now + bracket[1]))
      counts[#counts + 1] = within - below
      below = within
    end
    counts[#counts + 1] = all - below
    local row = { '  ' .. plain(lane.name), span(lane.patience) }
    for i, count in ipairs(counts) do
      sums[i] = (sums[i] or 0) + count
      row[#row + 1] = figure(count)
    end
    rows[#rows + 1] = row
  end
  local all = { '  all lanes', '' }
  for _, sum in ipairs(sums) do all[#all + 1] = figure(sum) end
  if #lanes > 0 then rows[#rows + 1] = all end
  table_of('lrrrrrrrr', rows)
end

local function reasons_of(tag)
  local ids = redis.call('ZRANGE', tag .. ':dead', 0, REASONS_READ - 1, 'REV')
  local counts, reasons = {}, {}
  if #ids == 0 then return reasons end
  for _, why in ipairs(redis.call('HMGET', tag .. ':dead:why', unpack(ids))) do
    local reason = plain(why or 'no reason is known')
    if not counts[reason] then reasons[#reasons + 1] = reason end
    counts[reason] = (counts[reason] or 0) + 1
  end
  table.sort(reasons, function(a, b) return counts[a] > counts[b] or (counts[a] == counts[b] and a < b) end)
  local rows = {}
  for i = 1, math.min(#reasons, REASONS_SAID) do
    rows[i] = { '  why', figure(counts[reasons[i]]), cut(reasons[i], 100) }
  end
  if #reasons > REASONS_SAID then
    rows[#rows + 1] = { '  why', '', figure(#reasons - REASONS_SAID) .. ' more reasons' }
  end
  return rows, #ids
end

local function say_places(tag, now)
  local leased, incoming = redis.call('ZCARD', tag .. ':leased'), redis.call('ZCARD', tag .. ':incoming')
  local expired = redis.call('ZCOUNT', tag .. ':leased', '-inf', digits(now))
  local dead, why, read = redis.call('ZCARD', tag .. ':dead'), reasons_of(tag)
  local rows = {
    { 'leased', figure(leased), figure(expired) .. ' of them expired' .. (expired > 0 and ', the next claim takes them over' or '') },
    { 'incoming', figure(incoming), figure(redis.call('HLEN', tag .. ':incoming:refused')) .. ' refused' },
    { 'dead', figure(dead), read and read < dead and 'the reasons of the last ' .. figure(read) .. ':' or '' },
  }
  for _, row in ipairs(why) do rows[#rows + 1] = row end
  table_of('lrl', rows)
end

shows('status', function(tag, _, now)
  local lanes = lanes_of(tag)
  say(plain(string.sub(tag, 2, -2)) .. ' at ' .. date(now))
  local paused = redis.call('GET', tag .. ':paused')
  if paused then say('PAUSED, nothing is claimed: ' .. plain(paused)) end
  local due, latest, where = 0, 0, nil
  for _, lane in ipairs(lanes) do
    due = due + redis.call('ZCOUNT', lane.set, '-inf', digits(now))
    local _, score = first_of(lane.set)
    if score and now - score > latest then latest, where = now - score, lane.name end
  end
  if where then
    say(figure(due) .. ' due now, the oldest is ' .. span(latest) .. ' late (' .. plain(where) .. ')')
  elseif #lanes > 0 then
    say('nothing is overdue')
  else
    say('nothing was ever scheduled here')
  end
  say('')
  say_delayed(lanes, now)
  say('')
  say_places(tag, now)
  say('')
  say_rates(tag, now, MINUTES)
  say('')
  say_workers(tag, now)
  say('')
  say_credentials(LEDGER, now)
end)
