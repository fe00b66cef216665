-- A credential that was parked for every endpoint may call again. Flagged allow-oom.
--
-- ARGV   name, fingerprint of its secret
-- returns 1 where it was parked, else 0

local _, everywhere = refusals_of(ARGV[1], ARGV[2], '')
redis.call('HDEL', key('refusals:' .. ARGV[1]), ARGV[2] .. ' ')
return parked_for(everywhere, now_ms()) > 0 and 1 or 0
