-- A call was not made: its permit goes back. Flagged allow-oom.
--
-- ARGV   name, endpoint, permit
-- returns nothing

local name, endpoint, permit = ARGV[1], ARGV[2], ARGV[3]
local now = now_ms()
if redis.call('ZREM', key('permits:' .. name .. ':' .. endpoint), permit) == 0 then return false end
local window = key('window:' .. name .. ':' .. endpoint)
redis.call('HSET', window, 'opening_until', 0)
local flat = redis.call('HMGET', window, 'limit', 'remaining', 'reset_at')
if tonumber(flat[1] or 0) > 0 and now < tonumber(flat[3] or 0) then
  redis.call('HSET', window,
    'remaining', digits(math.min(tonumber(flat[1]), tonumber(flat[2]) + 1)), 'next_at', digits(now))
end
local credential = key('credential:' .. name)
-- Those of yesterday are not among today's.
if tonumber(redis.call('HGET', credential, 'calls_today') or 0) > 0 then redis.call('HINCRBY', credential, 'calls_today', -1) end
return false
