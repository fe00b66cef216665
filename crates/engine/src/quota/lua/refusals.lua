-- Growing pauses after refusals of a secret, at every endpoint (endpoint '') or at one. This text is put before the scripts that use
-- it; crates/engine/src/quota/refusals.rs has the same rules with their reasons.
--
-- `refusals:<name>` is a HASH: "<fingerprint> <endpoint>" -> "<end of the pause, ms> <refusals in a row> <time of the last, ms>
-- <why>".

local FIRST, DOUBLINGS, RECOVERY, FORGOTTEN_AFTER = 1000, 8, 60000, 86400000

local function read_refusals(text)
  local till, in_a_row, last_at, why = string.match(text or '', '^(%d+) (%d+) (%d+) (.*)$')
  return { till = tonumber(till or 0), in_a_row = tonumber(in_a_row or 0), last_at = tonumber(last_at or 0), why = why or '' }
end

-- Returns the refusals of a secret: at this endpoint, and at every endpoint.
local function refusals_of(name, fingerprint, endpoint)
  local texts = redis.call('HMGET', key('refusals:' .. name), fingerprint .. ' ' .. endpoint, fingerprint .. ' ')
  return read_refusals(texts[1]), read_refusals(texts[2])
end

local function parked_for(refusals, now)
  if refusals.last_at <= now and now < refusals.till then return refusals.till - now end
  return 0
end

local function grown(refusals)
  return FIRST * 2 ^ math.max(0, refusals.in_a_row - 1)
end

-- Notes a refusal; returns true if the refusals must be saved.
local function refuse(refusals, pause, why, now)
  if parked_for(refusals, now) > 0 then
    if now + pause <= refusals.till then return false end
  else
    refusals.in_a_row = math.min(refusals.in_a_row + 1, DOUBLINGS + 1)
    refusals.last_at = now
    pause = math.max(pause, grown(refusals))
  end
  refusals.till, refusals.why = now + pause, why
  return true
end

local function answer(refusals, now)
  if refusals.in_a_row == 0 or parked_for(refusals, now) > 0 then return false end
  local recovered = grown(refusals) + math.min(grown(refusals), RECOVERY)
  if now >= refusals.last_at and now - refusals.last_at < recovered then return false end
  refusals.till, refusals.in_a_row, refusals.last_at = 0, 0, 0
  return true
end

local function save_refusals(name, fingerprint, endpoint, refusals, now)
  local all, own = key('refusals:' .. name), fingerprint .. ' ' .. endpoint
  local latest, flat = refusals.till, redis.call('HGETALL', all)
  for i = 1, #flat, 2 do
    local old = read_refusals(flat[i + 1])
    if old.till < now - FORGOTTEN_AFTER or old.last_at > now then
      redis.call('HDEL', all, flat[i])
    elseif flat[i] ~= own then
      latest = math.max(latest, old.till)
    end
  end
  if refusals.in_a_row == 0 then
    redis.call('HDEL', all, own)
  else
    redis.call('HSET', all, own, digits(refusals.till) .. ' ' .. refusals.in_a_row .. ' ' .. digits(refusals.last_at) .. ' '
      .. refusals.why)
    redis.call('PEXPIREAT', all, digits(latest + FORGOTTEN_AFTER))
  end
  redis.call('HSET', key('credential:' .. name), 'fingerprint', fingerprint)
end
