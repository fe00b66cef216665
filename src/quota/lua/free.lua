-- A credential that was parked for every endpoint may call again. Flagged allow-oom.
--
-- ARGV   name
-- returns 1 where it was parked, else 0

local credential = key('credential:' .. ARGV[1])
local parked = tonumber(redis.call('HGET', credential, 'parked_until') or 0) > now_ms()
redis.call('HDEL', credential, 'parked_until', 'parked_why')
return parked and 1 or 0
