-- The appearances of a post, to find them when it is removed or blanked.

-- A statement that reads a table for long (a dump) would hold up the index, and it everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

CREATE INDEX community_appearance_by_post ON community_appearance (post COLLATE "C") WHERE post IS NOT NULL;

COMMENT ON COLUMN community_appearance.post IS 'The id of the post that shows it; NULL: none does, or it is removed or blanked';
