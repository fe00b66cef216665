-- How many ids are due in all lanes. Flagged no-writes.
--
-- returns a number

local now = digits(now_ms())
local due = 0
for _, lane in ipairs(redis.call('HKEYS', key('lanes'))) do
  due = due + redis.call('ZCOUNT', key('delayed:' .. lane), '-inf', now)
end
return due
