-- Which due jobs of all lanes go first: the largest (now - due) / patience. It stands before claim.lua.
--
-- A lane's picks are its first ones, and what is looked for is how many of each: `n` of each lane's `jobs`.
-- Lanes are read by rank: the first job of each, then more of those that are the most urgent, a fair share at
-- first.

-- Answers `pick_due(suspects_too)`, and `urgency(lane, place)` of a job that it has read.
-- `deliveries_of(jobs, n)` tells, by place, which of jobs are suspects.
local function picker(lanes, now, limit, linger, lookahead, deliveries_of)
  local share = math.ceil(limit * 1.1 / math.max(1, #lanes))
  local READS = 20 -- of one lane: what a claim costs is bounded
  local with_suspects, picks

  local function urgency(lane, place)
    return (now - lane.jobs[2 * place]) / lane.patience
  end

  local function read_on(lane)
    local wanted = 1
    if #lanes == 1 or lane.reads > 1 then wanted = limit elseif lane.reads == 1 then wanted = share end
    local more = redis.call('ZRANGE', lane.key, lane.read, lane.read + wanted - 1, 'WITHSCORES')
    lane.read, lane.reads = lane.read + wanted, lane.reads + 1
    lane.whole = #more < 2 * wanted or lane.reads >= READS
    if with_suspects and lane.known == 0 then
      lane.jobs, lane.known = more, #more / 2
      return
    end
    local known = not with_suspects and deliveries_of(more, #more / 2)
    for i = 1, #more / 2 do
      if not (known and known[i]) then
        lane.known = lane.known + 1
        lane.jobs[2 * lane.known - 1], lane.jobs[2 * lane.known] = more[2 * i - 1], more[2 * i]
      end
    end
  end

  -- How many of a lane's known jobs are due. They are in order: the last one tells, or halving.
  local function count_due(lane)
    local low, high = 0, lane.known
    if high > 0 and urgency(lane, high) >= 0 then return high end
    while low < high do
      local middle = math.floor((low + high + 1) / 2)
      if urgency(lane, middle) >= 0 then low = middle else high = middle - 1 end
    end
    return low
  end

  local function pick(lane, n)
    picks = picks + n - lane.n
    lane.n = n
    lane.tail = n > 0 and urgency(lane, n) or math.huge
  end

  -- The lane whose last pick is the least urgent of all picks, and how urgent the next least one is.
  local function last_of_all()
    local last, next_tail = lanes[1], math.huge
    for i = 2, #lanes do
      local lane = lanes[i]
      if lane.tail <= last.tail then
        last, next_tail = lane, last.tail
      elseif lane.tail < next_tail then
        next_tail = lane.tail
      end
    end
    return last, next_tail
  end

  local function pick_most_urgent()
    for _, lane in ipairs(lanes) do pick(lane, count_due(lane)) end
    repeat
      while picks > limit do
        local lane, next_tail = last_of_all()
        repeat pick(lane, lane.n - 1) until picks == limit or lane.tail >= next_tail
      end
      -- A lane all of whose known jobs are picked may have more that come before another lane's last; among
      -- equals those of the first lanes do.
      local short
      local last, before_last = #lanes > 0 and last_of_all(), true
      for _, lane in ipairs(lanes) do
        before_last = before_last and lane ~= last
        if lane.n == lane.known and not lane.whole and (not short or lane.tail > short.tail) then
          if picks < limit or lane.tail > last.tail or (before_last and lane.tail == last.tail) then short = lane end
        end
      end
      if short then
        read_on(short)
        pick(short, count_due(short))
      end
    until not short
  end

  -- Free places go to what is due soonest, up to the first that it is too early for: that one's due time is
  -- when the next batch goes out, so to take later ones makes no gap longer and only shortens intervals.
  local function look_ahead()
    while picks < limit do
      local soonest, due
      for _, lane in ipairs(lanes) do
        while lane.n == lane.known and not lane.whole do read_on(lane) end
        local next_due = tonumber(lane.jobs[2 * lane.n + 2])
        if next_due and (not due or next_due < due) then soonest, due = lane, next_due end
      end
      if not soonest or (due - now) / soonest.patience > lookahead then return end
      soonest.n, picks = soonest.n + 1, picks + 1
    end
  end

  -- Says whether what is due makes a batch (full, or sent short with what is due soon in the free places), and
  -- if not, when the oldest of it was due.
  local function pick_due(suspects_too)
    local oldest = now + 1
    with_suspects, picks = suspects_too, 0
    for _, lane in ipairs(lanes) do
      lane.jobs, lane.known, lane.n, lane.read, lane.reads, lane.whole = {}, 0, 0, 0, 0, false
      read_on(lane)
    end
    pick_most_urgent()
    for _, lane in ipairs(lanes) do
      if lane.n > 0 then oldest = math.min(oldest, tonumber(lane.jobs[2])) end
    end
    if picks == limit then return true end
    if picks == 0 or now - oldest < linger then return false, picks > 0 and oldest end
    if lookahead > 0 then look_ahead() end
    return true
  end

  return pick_due, urgency
end
