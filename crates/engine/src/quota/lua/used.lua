-- A call was made, or may have been. Flagged allow-oom.
--
-- ARGV   name, endpoint, permit (or '': the call took none),
--        limit (or ''), remaining, reset_at (the API's clock, ms: names the window), reset_in (ms),
--        parked for (ms at least, or ''), why, 'everywhere' or '', fingerprint of the secret,
--        the length of a window (ms), where the API states it, or ''
-- returns nothing

local name, endpoint, permit = ARGV[1], ARGV[2], ARGV[3]
local SAME_WINDOW = 2000
local now = now_ms()
local permits = key('permits:' .. name .. ':' .. endpoint)
local window = key('window:' .. name .. ':' .. endpoint)
if permit == '' then redis.call('ZADD', key('credentials'), digits(now), name .. ':' .. endpoint) end
-- An answer to a call without a permit opens a window, but says nothing of the call that is awaited.
if redis.call('ZREM', permits, permit) == 1 or ARGV[4] ~= '' then
  redis.call('HSET', window, 'opening_until', 0)
end

if ARGV[4] ~= '' then
  local limit, left, reset = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  local stated_length = tonumber(ARGV[12])
  local reset_in = math.max(0, tonumber(ARGV[7]))
  local reset_at = now + reset_in
  -- Other permits out: this answer may not have counted their calls.
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', digits(now))
  local others = redis.call('ZCARD', permits)
  local free = math.max(0, left - others)
  local flat = redis.call('HMGET', window, 'limit', 'remaining', 'reset_at', 'reset', 'lowest_remaining', 'length')
  local known_limit, length = tonumber(flat[1] or 0), tonumber(flat[6] or 0)
  local known_reset = tonumber(flat[4] or 0)
  local open = known_limit > 0 and now < tonumber(flat[3] or 0)
  -- Ends that are stated a little apart name one window, while it is open.
  local near = open and limit == known_limit and math.abs(reset - known_reset) < SAME_WINDOW
  if known_limit > 0 and (reset == known_reset or near) then
    -- Answers overtake each other: inside one window the least figures are the truest. What other calls
    -- may cost is held back, and freed when all is quiet.
    local least = math.min(tonumber(flat[5] or left), left)
    redis.call('HSET', window, 'lowest_remaining', digits(least),
      'remaining', digits(others == 0 and least or math.min(tonumber(flat[2]), free)),
      'reset_at', digits(math.min(tonumber(flat[3]), reset_at)),
      'length', digits(stated_length or math.max(length, reset_in)))
  elseif reset > known_reset or not open then
    -- Another limit is another plan: the length of its windows is learned again.
    if limit ~= known_limit then length = 0 end
    length = stated_length or math.max(length, reset_in)
    redis.call('HSET', window,
      'limit', digits(limit), 'remaining', digits(free), 'reset_at', digits(reset_at), 'reset', digits(reset),
      'next_at', 0, 'lowest_remaining', digits(left), 'length', digits(length))
  end
end

-- A call with a window and without a pause was answered.
local fingerprint = ARGV[11]
local here, everywhere = refusals_of(name, fingerprint, endpoint)
for where, refusals in pairs({ [endpoint] = here, [''] = everywhere }) do
  local is_changed
  if ARGV[8] == '' then
    is_changed = ARGV[4] ~= '' and answer(refusals, now)
  elseif (ARGV[10] == 'everywhere') == (where == '') then
    is_changed = refuse(refusals, tonumber(ARGV[8]), ARGV[9], now)
  end
  if is_changed then save_refusals(name, fingerprint, where, refusals, now) end
end
return false
