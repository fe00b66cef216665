-- Recent events of a post as of checked_at, weighted counts: what an adaptive schedule wants back after the next answer. NULL:
-- that answer had no counts, or the schedule goes by age alone.
ALTER TABLE tweet ADD COLUMN recent REAL;
