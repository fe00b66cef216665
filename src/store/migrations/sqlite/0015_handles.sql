-- Handles of accounts that came without an id: each waits until a call has told the id, or is kept with the reason for which
-- there is none.

CREATE TABLE account_handle (
    namespace TEXT    NOT NULL,
    handle    TEXT    NOT NULL,           -- in small letters, without @
    at        INTEGER NOT NULL,           -- when it came, or was refused, ms
    until     INTEGER NOT NULL DEFAULT 0, -- until then an updater has it in work, ms
    reason    TEXT,                       -- why it has no account; null: it waits
    PRIMARY KEY (namespace, handle)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_handle_waiting ON account_handle (namespace, at) WHERE reason IS NULL;
