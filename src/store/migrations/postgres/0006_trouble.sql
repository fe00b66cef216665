-- What keeps a source from being read, also before its first page; and when it last brought a post.

ALTER TABLE source_position
    ALTER COLUMN position DROP NOT NULL,
    ALTER COLUMN saved_at DROP NOT NULL,
    ADD COLUMN brought_at    BIGINT,
    ADD COLUMN failing_since BIGINT,
    ADD COLUMN failures      BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN error         TEXT,
    ADD COLUMN failed_at     BIGINT;
UPDATE source_position SET brought_at = saved_at;

COMMENT ON COLUMN source_position.saved_at IS 'When the last page was read and saved, ms since the epoch';
COMMENT ON COLUMN source_position.brought_at IS 'When a page last brought a post that was not known, or, where none did, when it was tried first; ms since the epoch';
COMMENT ON COLUMN source_position.failing_since IS 'Since when no page could be read, ms since the epoch';
COMMENT ON COLUMN source_position.failures IS 'How often in a row, while other sources were answered';
COMMENT ON COLUMN source_position.error IS 'The last error';
COMMENT ON COLUMN source_position.failed_at IS 'When that was, ms since the epoch';
