-- The namespace at one moment. Flagged no-writes.
--
-- ARGV   how long a worker stays on the list after its last heartbeat (ms), slack of due times (ms)
-- returns {now, {lane, kind (lane_of), delayed, due, oldest due or -1, due beyond patience and slack}…, {leased, expired,
--          dead, incoming, incoming refused, last fence ahead (ms)}, paused or '', counters flat, {worker, last heartbeat, fields flat}…}

local now = now_ms()
local lanes = {}
for i, lane in ipairs(lanes_in_order()) do
  local oldest = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')[2]
  lanes[i] = {
    lane.name,
    lane.kind,
    redis.call('ZCARD', lane.key),
    redis.call('ZCOUNT', lane.key, '-inf', digits(now)),
    oldest and math.floor(tonumber(oldest)) or -1,
    redis.call('ZCOUNT', lane.key, '(' .. digits(now + lane.patience + ARGV[2]), '+inf'),
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
