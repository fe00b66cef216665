-- Merges errors into those of the namespace: counts add up; of the texts the newest stay. Flagged allow-oom: it is bounded.
--
-- ARGV   how many are kept, for how long (ms), then key, error (JSON), key, error, …
-- returns nothing

local kept, kept_for, now = tonumber(ARGV[1]), tonumber(ARGV[2]), now_ms()
local ERRORS, TIMES = key('errors'), key('errors:at')
local bare = tonumber(redis.call('GET', key('errors:bare')) or 0)

for i = 3, #ARGV, 2 do
  local new = cjson.decode(ARGV[i + 1])
  -- No error is later than this clock.
  new.first_ms, new.last_ms = math.min(new.first_ms, now), math.min(new.last_ms, now)
  if new.last_ms <= bare then new.example = nil end
  if new.last_ms > now - kept_for then
    local text = redis.call('HGET', ERRORS, ARGV[i])
    local is_read, old = pcall(cjson.decode, text or '')
    if is_read and type(old) == 'table' and old.count and old.first_ms and old.last_ms then
      new.count, new.first_ms = new.count + old.count, math.min(new.first_ms, old.first_ms)
      if old.last_ms > new.last_ms then
        new.last_ms, new.message, new.example = old.last_ms, old.message, old.example
      elseif not new.example then
        new.example = old.example
      end
    end
    redis.call('HSET', ERRORS, ARGV[i], cjson.encode(new))
    redis.call('ZADD', TIMES, digits(new.last_ms), ARGV[i])
  end
end

keep_newest(ERRORS, TIMES, kept, kept_for, now)
return false
