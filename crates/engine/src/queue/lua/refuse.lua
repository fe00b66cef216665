-- Moves members that are no ids to `incoming:refused`, and bounds that. Flagged allow-oom.
--
-- ARGV   '' and '' for members of `incoming`, or the fence under which they are leased and its token; how many are
--        kept, for how long (ms); then member, reason, member, reason, …
-- returns nothing

local fence, token, kept, kept_for = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local REFUSED, TIMES = key('incoming:refused'), key('incoming:refused:at')
local now = now_ms()

-- The claim's record without them: white space in a member would shift all that follows it.
local record = fence ~= '' and redis.call('GET', key('claim:' .. token))
local function cut_out(member)
  local first, last = string.find(record, ' ' .. member .. ' ', 1, true)
  if first then
    local due = string.match(record, '^%S+', last + 1) or ''
    record = string.sub(record, 1, first - 1) .. string.sub(record, last + #due + 1)
  end
end

for i = 5, #ARGV, 2 do
  local member = ARGV[i]
  local from = key('incoming')
  if fence ~= '' then
    local held = redis.call('ZSCORE', key('leased'), member)
    from = held and tonumber(held) == tonumber(fence) and key('leased')
  end
  if from then
    redis.call('HSET', REFUSED, member, ARGV[i + 1])
    redis.call('ZADD', TIMES, now, member)
    redis.call('ZREM', from, member)
    if fence ~= '' then
      for _, name in ipairs({ 'deliveries', 'failures', 'trials', 'promoted' }) do
        redis.call('HDEL', key(name), member)
      end
      if record then cut_out(member) end
    end
  end
end

if record and tonumber(fence) > now then
  redis.call('SET', key('claim:' .. token), record, 'PX', digits(tonumber(fence) - now))
end

-- Versions before this one kept no times: theirs were refused just now, and are no more than are kept.
if redis.call('HLEN', REFUSED) > redis.call('ZCARD', TIMES) then
  local known, more, without_place = redis.call('ZCARD', TIMES), {}, {}
  for _, member in ipairs(redis.call('HKEYS', REFUSED)) do
    if not redis.call('ZSCORE', TIMES, member) then
      local to = known + #more / 2 < kept and more or without_place
      if to == more then to[#to + 1] = now - 1 end
      to[#to + 1] = member
    end
  end
  in_chunks('ZADD', TIMES, nil, more)
  in_chunks('HDEL', REFUSED, nil, without_place)
end

keep_newest(REFUSED, TIMES, kept, kept_for, now)
return false
