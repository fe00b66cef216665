-- Runs plain commands one after another, in one step. Its flags are the caller's.
--
-- ARGV   of each command: how many words it has, then these
-- returns the commands' replies

local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies
