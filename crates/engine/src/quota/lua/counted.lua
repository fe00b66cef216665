-- What has been read. Flagged no-writes.
--
-- ARGV   length of the period (ms; 0: a month)
-- returns {now (ms), {UTC day, reads, ...}, number of the period that is kept ('': none), its reads}

local kept = redis.call('HMGET', key('period:' .. ARGV[1]), 'number', 'reads')
return { now_ms(), redis.call('HGETALL', key('reads')), kept[1] or '', tonumber(kept[2] or 0) }
