-- workers: who lives, and what they say of themselves. claims: who holds what.

-- How many are named.
local WORKERS_SAID = 100

local function say_workers(tag, now)
  local beats = redis.call('ZRANGE', tag .. ':workers', 0, WORKERS_SAID - 1, 'REV', 'WITHSCORES')
  if #beats == 0 then
    say('NO WORKER has beaten within a minute: nothing is looked up')
    return
  end
  local rows = { { 'worker', 'beat', 'version', 'config', 'concurrency', 'requests', 'late p99' } }
  for i = 1, #beats, 2 do
    local says = hash(tag .. ':worker:' .. beats[i])
    rows[#rows + 1] = {
      plain(beats[i]), span(now - tonumber(beats[i + 1])) .. ' ago', plain(says.version or '-'),
      plain(says.config_revision or '-'), plain(says.concurrency or '-'),
      says.requests and figure(tonumber(says.requests) or 0) or '-',
      says.late_p99_ms and span(tonumber(says.late_p99_ms) or 0) or '-',
    }
  end
  table_of('lrllrrr', rows)
  local more = redis.call('ZCARD', tag .. ':workers') - #beats / 2
  if more > 0 then say('and ' .. figure(more) .. ' more') end
end

shows('workers', function(tag, _, now)
  say_workers(tag, now)
end)

-- A claim is on record under its token, which begins with its worker's name. The records are found among all
-- keys of the server; of those there are few, unless others share it.
local KEYS_READ, STEP = 20000, 1000

-- The living claims {token, fence, taken}; and whether all keys were looked at.
local function claims_of(tag, now)
  local prefix, claims, cursor, read = tag .. ':claim:', {}, '0', 0
  local pattern = string.gsub(prefix, '[%*%?%[%]\\^]', '\\%0') .. '*'
  local seen = {}
  repeat
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', STEP)
    for _, name in ipairs(page[2]) do
      local fence, taken = string.match(redis.call('GETRANGE', name, 0, 63), '^(%d+) (%d+)')
      if fence and tonumber(fence) > now and not seen[name] then
        seen[name] = true
        claims[#claims + 1] = { token = string.sub(name, #prefix + 1), fence = tonumber(fence), taken = tonumber(taken) }
      end
    end
    cursor, read = page[1], read + STEP
  until cursor == '0' or read >= KEYS_READ
  return claims, cursor == '0'
end

-- A token without the number at its end.
local function worker_of(claim)
  return plain((string.gsub(claim.token, '%-%x+$', '')))
end

shows('claims', function(tag, _, now)
  local claims, all = claims_of(tag, now)
  table.sort(claims, function(a, b) return a.fence < b.fence end)
  local rows, held = { { 'worker', 'ids', 'taken', 'lease ends' } }, 0
  for _, claim in ipairs(claims) do
    local fence = digits(claim.fence)
    local ids = redis.call('ZCOUNT', tag .. ':leased', fence, fence)
    held = held + ids
    rows[#rows + 1] = { worker_of(claim), figure(ids), span(now - claim.taken) .. ' ago', 'in ' .. span(claim.fence - now) }
  end
  table_of('lrrr', rows)
  local expired = redis.call('ZCOUNT', tag .. ':leased', '-inf', digits(now))
  say(figure(held) .. ' ids are held, ' .. figure(expired) .. ' more by leases that have run out: the next claim takes them over')
  if not all then say('not all claims: this Redis holds too many other keys') end
end)
