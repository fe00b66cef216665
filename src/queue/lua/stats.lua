-- The namespace at one moment. Flagged no-writes.
--
-- ARGV   how long a worker stays on the list after its last beat (ms)
-- returns {now, {lane, patience, delayed, due, oldest due or -1}…, {leased, expired, dead, incoming,
--          incoming refused}, paused or '', counters flat, {worker, last beat, fields flat}…}

local now = now_ms()
local lanes = {}
local flat = redis.call('HGETALL', key('lanes'))
for i = 1, #flat, 2 do
  local set = key('delayed:' .. flat[i])
  local oldest = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  lanes[#lanes + 1] = {
    flat[i],
    tonumber(flat[i + 1]),
    redis.call('ZCARD', set),
    redis.call('ZCOUNT', set, '-inf', digits(now)),
    oldest and math.floor(tonumber(oldest)) or -1,
  }
end

local workers = {}
local beats = redis.call('ZRANGE', key('workers'), '(' .. digits(now - ARGV[1]), '+inf', 'BYSCORE', 'LIMIT', 0, 1000, 'WITHSCORES')
for i = 1, #beats, 2 do
  workers[#workers + 1] = {
    beats[i], math.floor(tonumber(beats[i + 1])), redis.call('HGETALL', key('worker:' .. beats[i])),
  }
end

return {
  now,
  lanes,
  {
    redis.call('ZCARD', key('leased')),
    redis.call('ZCOUNT', key('leased'), '-inf', digits(now)),
    redis.call('ZCARD', key('dead')),
    redis.call('ZCARD', key('incoming')),
    redis.call('HLEN', key('incoming:refused')),
  },
  redis.call('GET', key('paused')) or '',
  redis.call('HGETALL', key('stats')),
  workers,
}
