-- Removes the entries of a hash whose times, in a sorted set beside it, are too old, and the oldest beyond `kept`; and lets both
-- expire. Included by refuse.lua and record_errors.lua.
local function keep_newest(entries, times, kept, kept_for, now)
  local function remove(names)
    in_chunks('HDEL', entries, nil, names)
    in_chunks('ZREM', times, nil, names)
  end
  remove(redis.call('ZRANGEBYSCORE', times, '-inf', digits(now - kept_for)))
  local over = redis.call('ZCARD', times) - kept
  if over > 0 then remove(redis.call('ZRANGE', times, 0, over - 1)) end
  redis.call('PEXPIRE', entries, digits(kept_for))
  redis.call('PEXPIRE', times, digits(kept_for))
end
