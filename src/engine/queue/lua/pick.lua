-- Which due jobs of all lanes go first: those of the first tier; in a tier the largest (now - due) / patience, then the
-- newest of its newest-first lanes. It stands before claim.lua.
--
-- A lane's picks are its first ones, in its own order, and what is looked for is how many of each: `n` of each
-- lane's `jobs`. Lanes are read by rank: the first job of each, then more of those that are the most urgent, a fair share
-- at first. A lane of a later tier is read when the tiers before it leave places free.

-- Answers `pick_due(suspects_too)`, and `rank(lane, place)` of a job that it has read.
-- `deliveries_of(jobs, n)` tells, by place, which of jobs are suspects.
local function picker(lanes, now, limit, linger, lookahead, early, deliveries_of)
  local READS = 20 -- of one lane: what a claim costs is bounded
  local with_suspects
  -- The lanes that are compared with each other, how many of their jobs are picked, and how urgent those have to be.
  local group, picks, floor

  -- Lanes that are compared with each other, first things first.
  local groups = {}
  do
    local of, places = {}, {}
    for _, lane in ipairs(lanes) do
      lane.group = 2 * lane.tier + (lane.newest and 1 or 0)
      if not of[lane.group] then
        of[lane.group] = {}
        places[#places + 1] = lane.group
      end
      table.insert(of[lane.group], lane)
    end
    table.sort(places)
    for i, place in ipairs(places) do groups[i] = of[place] end
  end

  -- What decides in a group; it falls along a lane.
  local function urgency(lane, place)
    if lane.newest then return tonumber(lane.jobs[2 * place]) end
    return (now - lane.jobs[2 * place]) / lane.patience
  end

  -- The lesser group goes first, in it the greater urgency. What is not due yet comes after all that is.
  local function rank(lane, place)
    if tonumber(lane.jobs[2 * place]) > now then return math.huge, urgency(lane, place) end
    return lane.group, urgency(lane, place)
  end

  local function read_on(lane)
    local wanted = 1
    if #group == 1 or lane.reads > 1 then
      wanted = limit
    elseif lane.reads == 1 then
      wanted = math.ceil(limit * 1.1 / #group)
    end
    local more
    if lane.newest then
      more = redis.call('ZRANGE', lane.key, digits(now), '-inf', 'BYSCORE', 'REV', 'LIMIT', lane.read, wanted, 'WITHSCORES')
    else
      more = redis.call('ZRANGE', lane.key, lane.read, lane.read + wanted - 1, 'WITHSCORES')
    end
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

  -- How many of a lane's known jobs may be picked: all that are due, and those of a timed lane that are not too early.
  -- They are in order: the last one tells, or halving.
  local function count(lane)
    if lane.newest then return lane.known end
    local least = lane.timed and floor or 0
    local low, high = 0, lane.known
    if high > 0 and urgency(lane, high) >= least then return high end
    while low < high do
      local middle = math.floor((low + high + 1) / 2)
      if urgency(lane, middle) >= least then low = middle else high = middle - 1 end
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
    local last, next_tail = group[1], math.huge
    for i = 2, #group do
      local lane = group[i]
      if lane.tail <= last.tail then
        last, next_tail = lane, last.tail
      elseif lane.tail < next_tail then
        next_tail = lane.tail
      end
    end
    return last, next_tail
  end

  -- Picks the most urgent jobs of these lanes, `most` of them and none less urgent than `least`; answers how many that are.
  local function pick_most_urgent(of, most, least)
    group, picks, floor = of, 0, least
    for _, lane in ipairs(group) do
      if lane.reads == 0 then read_on(lane) end
      picks = picks + lane.n
    end
    for _, lane in ipairs(group) do pick(lane, count(lane)) end
    repeat
      while picks > most do
        local lane, next_tail = last_of_all()
        repeat pick(lane, lane.n - 1) until picks == most or lane.tail >= next_tail
      end
      -- A lane all of whose known jobs are picked may have more that come before another lane's last; among
      -- equals those of the first lanes do.
      local short
      local last, before_last = last_of_all(), true
      for _, lane in ipairs(group) do
        before_last = before_last and lane ~= last
        if lane.n == lane.known and not lane.whole and (not short or lane.tail > short.tail) then
          if picks < most or lane.tail > last.tail or (before_last and lane.tail == last.tail) then short = lane end
        end
      end
      if short then
        read_on(short)
        pick(short, count(short))
      end
    until not short
    return picks
  end

  -- Idle quota is spent early, if the request says so: free places go to what is due soonest in relation to its patience.
  local function pick_early()
    local of, others = {}, 0
    for _, lane in ipairs(lanes) do
      if lane.newest then others = others + lane.n else of[#of + 1] = lane end
    end
    return others + (#of > 0 and pick_most_urgent(of, limit - others, -early) or 0)
  end

  -- Free places go to what is due soonest, up to the first that it is too early for: that one's due time is
  -- when the next batch goes out, so to take later ones makes no gap longer and only shortens intervals.
  local function look_ahead(total)
    while total < limit do
      local soonest, due
      for _, lane in ipairs(lanes) do
        if lane.timed then
          while lane.n == lane.known and not lane.whole do read_on(lane) end
          local next_due = tonumber(lane.jobs[2 * lane.n + 2])
          if next_due and (not due or next_due < due) then soonest, due = lane, next_due end
        end
      end
      if not soonest or (due - now) / soonest.patience > lookahead then return end
      soonest.n, total = soonest.n + 1, total + 1
    end
  end

  -- When the oldest of the picks was due.
  local function oldest_pick()
    local oldest = now + 1
    for _, lane in ipairs(lanes) do
      if lane.n > 0 then oldest = math.min(oldest, tonumber(lane.jobs[lane.newest and 2 * lane.n or 2])) end
    end
    return oldest
  end

  -- Says whether what is due makes a batch (full, or sent short with what is due soon in the free places), and
  -- if not, when the oldest of it was due.
  local function pick_due(suspects_too)
    local total = 0
    with_suspects = suspects_too
    for _, lane in ipairs(lanes) do
      lane.jobs, lane.known, lane.n, lane.read, lane.reads, lane.whole = {}, 0, 0, 0, 0, false
    end
    for _, of in ipairs(groups) do
      total = total + pick_most_urgent(of, limit - total, 0)
      if total == limit then return true end
    end
    if early > 0 then return pick_early() > 0, false end
    if total == 0 then return false, false end
    local oldest = oldest_pick()
    if now - oldest < linger then return false, oldest end
    if lookahead > 0 then look_ahead(total) end
    return true
  end

  return pick_due, rank
end
