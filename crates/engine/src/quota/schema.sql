-- The quota ledger beside the embedded queue. Times are milliseconds since the epoch.

CREATE TABLE IF NOT EXISTS quota_credential (
    api          TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    fingerprint  TEXT    NOT NULL DEFAULT '', -- of its secret, as a call last had it
    day          INTEGER NOT NULL DEFAULT 0, -- days since the epoch
    calls_today  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (api, name)
) WITHOUT ROWID;

-- `remaining` is what may still be granted; `reset` is the API's own figure, which names the window.
CREATE TABLE IF NOT EXISTS quota_window (
    api          TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    endpoint     TEXT    NOT NULL,
    quota        INTEGER NOT NULL DEFAULT 0, -- calls per window; 0: nothing is known
    remaining    INTEGER NOT NULL DEFAULT 0,
    reset_at     INTEGER NOT NULL DEFAULT 0,
    reset        INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL DEFAULT 0,
    lowest_remaining INTEGER NOT NULL DEFAULT 0, -- the lowest number of remaining calls that an answer of this window stated
    opening_until INTEGER NOT NULL DEFAULT 0, -- until when the call that opens it is awaited
    length       INTEGER NOT NULL DEFAULT 0, -- of a window: as stated, else the longest that answers showed
    PRIMARY KEY (api, name, endpoint)
) WITHOUT ROWID;

-- Pauses after refusals, of a secret.
CREATE TABLE IF NOT EXISTS quota_refusals (
    api          TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    fingerprint  TEXT    NOT NULL,
    endpoint     TEXT    NOT NULL, -- empty: every endpoint
    parked_until INTEGER NOT NULL,
    in_a_row     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    why          TEXT    NOT NULL,
    PRIMARY KEY (api, name, fingerprint, endpoint)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS quota_permit (
    api      TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    endpoint TEXT    NOT NULL,
    permit   TEXT    NOT NULL,
    expiry   INTEGER NOT NULL,
    PRIMARY KEY (api, name, endpoint, permit)
) WITHOUT ROWID;

-- Items that were read, or reserved, by UTC day (days since the epoch).
CREATE TABLE IF NOT EXISTS quota_reads (
    api      TEXT    NOT NULL,
    day      INTEGER NOT NULL,
    reads    INTEGER NOT NULL,
    PRIMARY KEY (api, day)
) WITHOUT ROWID;

-- Which these are, while that can matter. `call` is the one that counted it; empty once a second one asked for it.
CREATE TABLE IF NOT EXISTS quota_charged (
    api      TEXT    NOT NULL,
    day      INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    call     TEXT    NOT NULL,
    length   INTEGER NOT NULL, -- of the part of a day it was counted in, ms; 0: none
    number   INTEGER NOT NULL,
    PRIMARY KEY (api, day, id)
) WITHOUT ROWID;

-- Reads of a period that is no whole number of days.
CREATE TABLE IF NOT EXISTS quota_period (
    api      TEXT    NOT NULL,
    length   INTEGER NOT NULL, -- ms
    number   INTEGER NOT NULL,
    reads    INTEGER NOT NULL,
    PRIMARY KEY (api, length)
) WITHOUT ROWID;
