-- Which claims hold these fences: one step of a walk over the server's keys, since a claim's record is found by
-- nothing else. Each step is a call of its own, so that no other call waits for the whole walk. Flagged no-writes.
--
-- ARGV   cursor, keys in a step, then fences
-- returns {the next step's cursor, '0' at the end; then fence, token, fence, token, …}

local now, wanted, any = now_ms(), {}, false
for i = 3, #ARGV do
  -- The record of a lease that has run out is gone.
  if tonumber(ARGV[i]) > now then wanted[ARGV[i]], any = true, true end
end
if not any then return { '0' } end

local prefix = key('claim:')
local pattern = string.gsub(prefix, '[%*%?%[%]\\^]', '\\%0') .. '*'
local page = redis.call('SCAN', ARGV[1], 'MATCH', pattern, 'COUNT', ARGV[2])
local found = { page[1] }
for _, name in ipairs(page[2]) do
  local fence = string.match(redis.call('GETRANGE', name, 0, 31), '^(%d+) ')
  if fence and wanted[fence] then
    found[#found + 1] = fence
    found[#found + 1] = string.sub(name, #prefix + 1)
  end
end
return found
