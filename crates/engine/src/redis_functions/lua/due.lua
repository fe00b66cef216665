-- due: what comes due, in twelve slices. late: which ids have been due for the longest time.

local SLICES = 12

shows('due', function(tag, args, now)
  local within = read_span(args[1] or '1h')
  if not within or within < SLICES * SECOND then
    error('a span is needed, of 12s or more: 15m, 1h, 1d', 0)
  end
  local lanes, step = lanes_of(tag), within / SLICES
  local head = { 'until', 'in', 'all' }
  for _, lane in ipairs(lanes) do head[#head + 1] = plain(lane.name) end
  local rows, below, sums = { head }, {}, {}
  for slice = 0, SLICES do
    local till = now + step * slice
    local row, sum = { time_of_day(till), slice == 0 and 'overdue' or span(step * slice), '' }, 0
    for i, lane in ipairs(lanes) do
      local count = redis.call('ZCOUNT', lane.set, '-inf', digits(till))
      row[i + 3] = figure(count - (below[i] or 0))
      sums[i] = count
      sum = sum + count - (below[i] or 0)
      below[i] = count
    end
    row[3] = figure(sum)
    rows[#rows + 1] = row
  end
  local total, all = { 'all', '', '' }, 0
  for i, sum in ipairs(sums) do
    total[i + 3] = figure(sum)
    all = all + sum
  end
  total[3] = figure(all)
  rows[#rows + 1] = total
  table_of('lrr' .. string.rep('r', #lanes), rows)
end)

shows('late', function(tag, args, now)
  local most, late = number_of(args[1], 10, 100), {}
  for _, lane in ipairs(lanes_of(tag)) do
    local first = redis.call('ZRANGE', lane.set, '-inf', digits(now), 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
    for i = 1, #first, 2 do
      late[#late + 1] = { id = first[i], due = tonumber(first[i + 1]), lane = lane }
    end
  end
  table.sort(late, function(a, b) return a.due < b.due or (a.due == b.due and a.id < b.id) end)
  if #late == 0 then say('nothing is overdue') return end
  local rows = { { 'id', 'late', 'lane', 'interval' } }
  for i = 1, math.min(#late, most) do
    local job = late[i]
    rows[#rows + 1] = { plain(job.id), span(now - job.due), plain(job.lane.name), span(job.lane.patience) }
  end
  table_of('lrlr', rows)
end)
