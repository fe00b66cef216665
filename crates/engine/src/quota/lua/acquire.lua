-- Grants one call to an endpoint. Flagged allow-oom.
--
-- ARGV   endpoint, permit, expiry (ms), backlog (calls that are due), then of each credential its name and fingerprint
-- returns {'granted', name}; {'trial', name} for the one call after refusals; or {'wait', ms}
--
-- `remaining` is what may still be granted. A window that is unknown or over is opened by one call; after refusals one call at a
-- time is granted.

local endpoint, permit, expiry, backlog = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local OPENING, OPENING_POLL, TRIAL = 1000, 50, 30000
local LONGEST_WAIT = 5000
local now = now_ms()

local books, left = {}, 0
local wake = now + LONGEST_WAIT
for i = 5, #ARGV, 2 do
  local name, fingerprint = ARGV[i], ARGV[i + 1]
  local permits = key('permits:' .. name .. ':' .. endpoint)
  local here, everywhere = refusals_of(name, fingerprint, endpoint)
  local on_trial = here.in_a_row > 0 or everywhere.in_a_row > 0
  -- The same permit again: the first reply was lost.
  if redis.call('ZSCORE', permits, permit) then return { on_trial and 'trial' or 'granted', name } end
  -- Permits that ran out are spent: the call may have gone out.
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', digits(now))
  local window = key('window:' .. name .. ':' .. endpoint)
  local flat = redis.call('HMGET', window, 'limit', 'remaining', 'reset_at', 'next_at', 'opening_until')
  local book = {
    name = name, fingerprint = fingerprint, permits = permits, window = window,
    remaining = tonumber(flat[2] or 0), reset_at = tonumber(flat[3] or 0), next_at = tonumber(flat[4] or 0),
    parked = now + math.max(parked_for(here, now), parked_for(everywhere, now)),
    on_trial = on_trial, opening_until = tonumber(flat[5] or 0),
  }
  book.open = tonumber(flat[1] or 0) > 0 and now < book.reset_at
  if book.open and book.parked <= now then left = left + math.max(0, book.remaining) end
  books[#books + 1] = book
end

local paced = backlog > left
local best = nil
for _, book in ipairs(books) do
  local free_at
  if book.parked > now then
    free_at = book.parked
  elseif not book.open or (book.on_trial and book.opening_until > now) then
    -- Its answer is awaited for a while.
    free_at = math.min(book.opening_until, now + OPENING_POLL)
  elseif book.remaining <= 0 then
    free_at = book.reset_at
  elseif paced and book.next_at > now then
    free_at = book.next_at
  else
    free_at = now
  end
  if free_at > now then
    wake = math.min(wake, free_at)
  else
    -- Whose calls expire soonest; one whose window is not open yet opens it first.
    local expires = book.open and book.reset_at or 0
    if not best or expires < best.expires then
      best = book
      best.expires = expires
    end
  end
end
if not best then return { 'wait', math.max(1, wake - now) } end

redis.call('ZADD', best.permits, digits(now + expiry), permit)
redis.call('ZADD', key('credentials'), digits(now), best.name .. ':' .. endpoint)
redis.call('PEXPIREAT', best.permits, digits(now + expiry + 60000))
if best.open then
  -- Evenly over what is left, and a little faster, so that the last call does not miss the end.
  local gap = math.floor((best.reset_at - now) * 98 / 100 / math.max(1, best.remaining))
  redis.call('HSET', best.window, 'remaining', digits(best.remaining - 1), 'next_at', digits(now + gap))
end
if best.on_trial or not best.open then
  redis.call('HSET', best.window, 'opening_until', digits(now + (best.on_trial and TRIAL or OPENING)))
end
local credential = key('credential:' .. best.name)
local day = digits(math.floor(now / 86400000))
if redis.call('HGET', credential, 'day') ~= day then
  redis.call('HSET', credential, 'day', day, 'calls_today', 0)
end
redis.call('HINCRBY', credential, 'calls_today', 1)
redis.call('HSET', credential, 'fingerprint', best.fingerprint)
return { best.on_trial and 'trial' or 'granted', best.name }
