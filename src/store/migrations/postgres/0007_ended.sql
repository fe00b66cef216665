-- A statement that reads the table for long (a dump) would hold this up, and it everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

-- For what is removed some time after its life has ended. It is written once in a life.
CREATE INDEX tweet_ended ON tweet (namespace, id) WHERE state = 'ended';
