-- Which due jobs of all lanes go first: those of the first tier; in a tier the largest (now - due) / patience, then the
-- newest of its newest-first lanes. It stands before claim.lua.
--
-- A lane's picks are its first ones, in its own order, and what is looked for is how many of each: `n` of each
-- lane's `jobs`. A job that is read costs more than a command, so few are read for nothing: half of a fair share of each
-- lane; then, of a lane whose known jobs are all picked, what it would give the rest of the batch as it has given so far.
-- A lane of a later tier is read when the tiers before it leave places free.

-- Answers `pick_due(suspects_too)`, and `rank(lane, place)` of a job that it has read.
-- `deliveries_of(jobs, n)` tells, by place, which of jobs are suspects; `any_suspects`, whether there are any.
local function picker(lanes, now, limit, linger, lookahead, early, deliveries_of, any_suspects)
  local READS = 20 -- of one lane: what a claim costs is bounded
  local NOTHING = -math.huge
  local with_suspects
  -- The lanes that are compared with each other, and how urgent a pick has to be.
  local group, floor

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

  -- `picks`: how many jobs are picked; `room`: how many more can be.
  local function read_on(lane, picks, room)
    local wanted = limit
    if #group > 1 and lane.reads == 0 then
      wanted = math.ceil(limit / 2 / #group)
    elseif #group > 1 then
      -- At least by half more: a lane is read a few times at the most, whatever it gives.
      -- Suspects among what is read may be left out, so then no number of places left says how much is enough.
      local most = with_suspects and math.max(1, room) or limit
      wanted = math.min(most, math.ceil(lane.read * math.max(0.5, room / math.max(1, picks))))
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

  -- How urgent a job is; NOTHING if it may not be picked: it is not due, or, in a timed lane, too early.
  local function urgency_if_picked(lane, place)
    local urgent = urgency(lane, place)
    if lane.newest or urgent >= (lane.timed and floor or 0) then return urgent end
    return NOTHING
  end

  -- How urgent the first job of a lane is that is not picked.
  local function head_of(lane, picks, room)
    while lane.n == lane.known and not lane.whole do read_on(lane, picks, room) end
    return lane.n < lane.known and urgency_if_picked(lane, lane.n + 1) or NOTHING
  end

  -- Which lane goes first, the first of equals, and which would go first without it.
  local function first_of(heads)
    local first, head, next_one, next_head = 1, heads[1], 0, NOTHING
    for at = 2, #heads do
      local other = heads[at]
      if other > head then
        first, head, next_one, next_head = at, other, first, head
      elseif other > next_head then
        next_one, next_head = at, other
      end
    end
    return first, head, next_one, next_head
  end

  -- Picks the most urgent jobs of these lanes until `most` of them are picked, none less urgent than `least`; answers how many
  -- are.
  local function pick_most_urgent(of, most, least)
    group, floor = of, least
    local picks, heads = 0, {}
    for _, lane in ipairs(group) do picks = picks + lane.n end
    for at, lane in ipairs(group) do heads[at] = head_of(lane, picks, most - picks) end
    local first, head, next_one, next_head
    -- Returns true if a job of this urgency keeps the turn with the lane that has it.
    local function goes_on(urgent)
      return urgent > next_head or (urgent == next_head and urgent > NOTHING and first < next_one)
    end
    while picks < most do
      first, head, next_one, next_head = first_of(heads)
      if head == NOTHING then break end
      local lane = group[first]
      -- Where many were due at once, many of one lane go together. Urgency falls along a lane, so the last of a number of jobs
      -- speaks for all of them: as many again as went so far, and fewer where that is too many.
      local run, step, reach = 0, 1, limit
      repeat
        lane.n, picks, run = lane.n + step, picks + step, run + step
        local further = run > 2 and math.min(run, reach, lane.known - lane.n, most - picks) or 0
        if further > 1 and goes_on(urgency_if_picked(lane, lane.n + further)) then
          step = further
        else
          if further > 1 then reach = math.floor(further / 2) end
          step, head = 1, picks < most and head_of(lane, picks, most - picks) or NOTHING
        end
      until step == 1 and not goes_on(head)
      heads[first] = head
    end
    return picks
  end

  -- Idle quota is spent early, if the request says so: free places go to what is due soonest in relation to its patience, in
  -- lanes that lend (Lane::lends).
  local function pick_early()
    local of, others = {}, 0
    for _, lane in ipairs(lanes) do
      if lane.timed and string.sub(lane.name, 1, 1) == '~' then of[#of + 1] = lane else others = others + lane.n end
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
          while lane.n == lane.known and not lane.whole do read_on(lane, total, limit - total) end
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
    if early > 0 then
      -- Suspects are not early: what fails is repeated when it is due.
      if suspects_too and any_suspects then return total > 0, false end
      return pick_early() > 0, false
    end
    if total == 0 then return false, false end
    local oldest = oldest_pick()
    if now - oldest < linger then return false, oldest end
    if lookahead > 0 then look_ahead(total) end
    return true
  end

  return pick_due, rank
end
