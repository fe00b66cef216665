-- The namespace at one moment. Flagged no-writes.
--
-- ARGV   how long a worker stays on the list after its last beat (ms), slack of due times (ms)
-- returns {now, {lane, patience, delayed, due, oldest due or -1, due beyond patience and slack}…, {leased, expired,
--          dead, incoming, incoming refused, last fence ahead (ms)}, paused or '', counters flat, {worker, last beat, fields flat}…}

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
    redis.call('ZCOUNT', set, '(' .. digits(now + flat[i + 1] + ARGV[2]), '+inf'),
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
    math.max(0, tonumber(redis.call('GET', key('fence')) or '0') - now),
  },
  redis.call('GET', key('paused')) or '',
  redis.call('HGETALL', key('stats')),
  workers,
}
