-- What is known of each credential at an endpoint. Flagged no-writes.
--
-- ARGV   endpoint, then the credentials' names
-- returns per name {limit or 0, remaining, reset_in (ms; 0: over), window's length (ms), outstanding,
--                  parked for (ms), why, everywhere or not (1, 0), calls today}

local endpoint = ARGV[1]
local now = now_ms()
local accounts = {}
for i = 2, #ARGV do
  local name = ARGV[i]
  local window = redis.call('HMGET', key('window:' .. name .. ':' .. endpoint),
    'limit', 'remaining', 'reset_at', 'parked_until', 'parked_why', 'length')
  local credential = redis.call('HMGET', key('credential:' .. name), 'parked_until', 'parked_why', 'day', 'calls_today')
  local reset_in = math.max(0, tonumber(window[3] or 0) - now)
  local here, everywhere = tonumber(window[4] or 0), tonumber(credential[1] or 0)
  local parked = math.max(0, math.max(here, everywhere) - now)
  local why = ''
  if parked > 0 then why = (everywhere >= here and credential[2] or window[5]) or '' end
  local for_all = everywhere > now and 1 or 0
  local today = credential[3] == digits(math.floor(now / 86400000))
  accounts[#accounts + 1] = {
    tonumber(window[1] or 0),
    tonumber(window[2] or 0),
    reset_in,
    tonumber(window[6] or 0),
    redis.call('ZCOUNT', key('permits:' .. name .. ':' .. endpoint), digits(now), '+inf'),
    parked,
    why,
    for_all,
    today and tonumber(credential[4] or 0) or 0,
  }
end
return accounts
