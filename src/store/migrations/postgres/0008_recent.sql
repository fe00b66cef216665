-- A statement that reads the table for long (a dump) would hold this up, and it everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

ALTER TABLE tweet ADD COLUMN recent DOUBLE PRECISION;

COMMENT ON COLUMN tweet.recent IS 'Recent events of a post as of checked_at, weighted counts: what an adaptive schedule wants back after the next answer. NULL: that answer had no counts, or the schedule goes by age alone';
