-- Writes a namespace down; its key is a slot of its own. Flagged allow-oom: who drains a full Redis
-- has to be able to start.
--
-- KEYS   the set of namespaces
-- ARGV   namespace
-- returns nothing

redis.call('SADD', KEYS[1], ARGV[1])
return false
