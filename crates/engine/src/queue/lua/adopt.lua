-- Takes ids that are in none of the places under a lease, for a rebuild. Not flagged allow-oom: it adds.
--
-- ARGV   token, lease (ms), then distinct ids
-- returns {fence, now, one letter per id, in order: s ours now, k delayed, l leased by another, d dead}

local token, lease = ARGV[1], tonumber(ARGV[2])
local now = now_ms()
local LEASED, RECORD = key('leased'), key('claim:' .. token)

-- The same token again: the first reply was lost. What it took is under its fence.
local record = redis.call('GET', RECORD)
local fence = record and tonumber(string.match(record, '^%d+'))
local again = fence and fence > now
if not again then
  fence = math.max(now + lease, tonumber(redis.call('GET', key('fence')) or '0') + 1)
end

local places = { { key('dead'), 'd' } }
for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
  places[#places + 1] = { key('delayed:' .. lane), 'k' }
end

local letters, adds = {}, {}
for first = 3, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  local found = {}
  for i, score in ipairs(redis.call('ZMSCORE', LEASED, unpack(ARGV, first, last))) do
    if score then found[i] = (again and tonumber(score) == fence) and 's' or 'l' end
  end
  for _, place in ipairs(places) do
    if redis.call('EXISTS', place[1]) == 1 then
      for i, score in ipairs(redis.call('ZMSCORE', place[1], unpack(ARGV, first, last))) do
        if score and not found[i] then found[i] = place[2] end
      end
    end
  end
  for i = 1, last - first + 1 do
    if not found[i] then
      adds[#adds + 1] = digits(fence)
      adds[#adds + 1] = ARGV[first + i - 1]
    end
    letters[#letters + 1] = found[i] or 's'
  end
end

if #adds > 0 then
  if not again then
    redis.call('SET', key('fence'), digits(fence))
    redis.call('SET', RECORD, digits(fence) .. ' ' .. digits(now) .. '\n', 'PX', digits(fence - now))
  end
  count(now, { adopted = in_chunks('ZADD', LEASED, 'NX', adds) })
end
return { fence, now, table.concat(letters) }
