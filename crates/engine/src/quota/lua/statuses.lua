-- What is known of each credential at an endpoint. Flagged no-writes.
--
-- ARGV   endpoint, then three values per credential: name, 'fingerprint', fingerprint of its secret; or name, 'last', '' for the
--        secret that was used last
-- returns per name {limit or 0, remaining, reset_in (ms; 0: over), window's length (ms), outstanding,
--                  parked for (ms), why, everywhere or not (1, 0), calls today}

local endpoint = ARGV[1]
local now = now_ms()
local accounts = {}
for i = 2, #ARGV, 3 do
  local name = ARGV[i]
  local window = redis.call('HMGET', key('window:' .. name .. ':' .. endpoint),
    'limit', 'remaining', 'reset_at', 'length')
  local credential = redis.call('HMGET', key('credential:' .. name), 'fingerprint', 'day', 'calls_today')
  local reset_in = math.max(0, tonumber(window[3] or 0) - now)
  local fingerprint = ARGV[i + 1] == 'last' and (credential[1] or '') or ARGV[i + 2]
  local here, everywhere = refusals_of(name, fingerprint, endpoint)
  local parked_here, parked_everywhere = parked_for(here, now), parked_for(everywhere, now)
  local parked = math.max(parked_here, parked_everywhere)
  local why = ''
  if parked > 0 then why = (parked_everywhere >= parked_here and everywhere or here).why end
  local for_all = parked_everywhere > 0 and 1 or 0
  local today = credential[2] == digits(math.floor(now / 86400000))
  accounts[#accounts + 1] = {
    tonumber(window[1] or 0),
    tonumber(window[2] or 0),
    reset_in,
    tonumber(window[4] or 0),
    redis.call('ZCOUNT', key('permits:' .. name .. ':' .. endpoint), digits(now), '+inf'),
    parked,
    why,
    for_all,
    today and tonumber(credential[3] or 0) or 0,
  }
end
return accounts
