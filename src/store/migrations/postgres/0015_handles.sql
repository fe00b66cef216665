-- Handles of accounts that came without an id: each waits until a call has told the id, or is kept with the reason for which
-- there is none.

CREATE TABLE account_handle (
    namespace TEXT COLLATE "C" NOT NULL,
    handle    TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    until     BIGINT NOT NULL DEFAULT 0,
    reason    TEXT,
    PRIMARY KEY (namespace, handle)
);

COMMENT ON TABLE account_handle IS 'A handle that came over HTTP, and whose account is not known yet';
COMMENT ON COLUMN account_handle.handle IS 'In small letters, without @';
COMMENT ON COLUMN account_handle.at IS 'When it came, or was refused, ms since the epoch';
COMMENT ON COLUMN account_handle.until IS 'Until then an updater has it in work, ms since the epoch';
COMMENT ON COLUMN account_handle.reason IS 'Why it has no account; null: it waits';

CREATE INDEX account_handle_waiting ON account_handle (namespace, at) WHERE reason IS NULL;
