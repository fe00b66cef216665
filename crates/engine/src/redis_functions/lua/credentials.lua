-- credentials: what the quota ledger knows of each. Its tag is the API's: on a cluster it may be another
-- master's, so the picture of the queue cannot hold it there.

-- How many are named: those that were used last.
local CREDENTIALS_SAID = 200

-- The longer one of the pauses of the secret that was used last: at this endpoint, and everywhere.
local function parked_of(refusals, fingerprint, endpoint, now)
  local longest, why = now, nil
  for _, where in ipairs({ '', endpoint }) do
    local till, last_at, said = string.match(refusals[fingerprint .. ' ' .. where] or '', '^(%d+) %d+ (%d+) (.*)$')
    if till and tonumber(last_at) <= now and tonumber(till) > longest then longest, why = tonumber(till), said end
  end
  return why and span(longest - now) .. ': ' .. plain(why) or '-'
end

local function say_credentials(tag, now)
  local used = redis.pcall('ZRANGE', tag .. ':credentials', 0, CREDENTIALS_SAID - 1, 'REV', 'WITHSCORES')
  if used.err then
    say('the credentials are in another slot of the cluster: FCALL_RO twitter_updater_credentials 1 ' .. tag)
    return
  end
  if #used == 0 then
    say('no credential was used yet')
    return
  end
  local rows = { { 'credential', 'endpoint', 'remaining', 'limit', 'reset in', 'in flight', 'calls today', 'last permit', 'parked' } }
  for i = 1, #used, 2 do
    local name, endpoint = string.match(used[i], '^([^:]*):(.*)$')
    local window, credential = hash(tag .. ':window:' .. used[i]), hash(tag .. ':credential:' .. (name or used[i]))
    local refusals = hash(tag .. ':refusals:' .. (name or used[i]))
    local open = tonumber(window.reset_at or 0) > now
    local metered = tonumber(window.limit or 0) < 4294967295
    local today = credential.day == digits(math.floor(now / DAY)) and tonumber(credential.calls_today or 0) or 0
    rows[#rows + 1] = {
      plain(name or used[i]), plain(endpoint or '-'),
      open and (metered and figure(tonumber(window.remaining or 0)) or 'no limit') or '-',
      window.limit and metered and figure(tonumber(window.limit)) or '-',
      open and span(window.reset_at - now) or '-',
      figure(redis.call('ZCOUNT', tag .. ':permits:' .. used[i], digits(now), '+inf')),
      figure(today), span(now - tonumber(used[i + 1])) .. ' ago', parked_of(refusals, credential.fingerprint or '', endpoint or '', now),
    }
  end
  table_of('llrrrrrrl', rows)
end

shows('credentials', function(tag, _, now)
  say_credentials(tag, now)
end)
