-- The embedded queue: one row per id, so an id cannot be in two places.
-- Times are milliseconds since the epoch; state is 0 delayed, 1 leased, 2 dead.

-- Rows lie in the order in which their ids came, which is much the order in which they come due: a batch's rows are
-- neighbours, and ids are found by their index, which only schedule and forget write.
CREATE TABLE IF NOT EXISTS queue_job (
    key        INTEGER PRIMARY KEY,
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    state      INTEGER NOT NULL CHECK (state IN (0, 1, 2)),
    lane       TEXT    NOT NULL,
    due        INTEGER NOT NULL,           -- when due; of a dead one, when it was buried
    fence      INTEGER,                    -- the lease's deadline, while leased
    token      TEXT,                       -- the claim's token, while leased
    deliveries INTEGER NOT NULL DEFAULT 0, -- leases that ran out, and counted retries, since it last succeeded
    failures   INTEGER NOT NULL DEFAULT 0, -- those of them that were its own fault
    trial      INTEGER,                    -- the fence under which it is alone in its process
    reason     TEXT,                       -- why it is dead
    promoted_due  INTEGER,                 -- of one promoted while leased: the due and the lane it takes when
    promoted_lane TEXT,                    -- the lease ends
    UNIQUE (namespace, id)
);

CREATE INDEX IF NOT EXISTS queue_job_delayed ON queue_job (namespace, lane, due, id) WHERE state = 0;
CREATE INDEX IF NOT EXISTS queue_job_leased ON queue_job (namespace, fence, id) WHERE state = 1;
CREATE INDEX IF NOT EXISTS queue_job_dead ON queue_job (namespace, due, id) WHERE state = 2;
-- Empty most of the time; a claim then reads no row but those it takes.
CREATE INDEX IF NOT EXISTS queue_job_suspect ON queue_job (namespace) WHERE deliveries > 0;

CREATE TABLE IF NOT EXISTS queue_namespace (
    namespace     TEXT    NOT NULL PRIMARY KEY,
    fence         INTEGER NOT NULL DEFAULT 0, -- the last one
    turns         INTEGER NOT NULL DEFAULT 3, -- claims since suspects last had theirs
    paused        TEXT,                       -- a reason; while it is there nothing is claimed
    drainer       TEXT,                       -- the worker that drains queue_incoming
    drainer_until INTEGER NOT NULL DEFAULT 0,
    hours_until   INTEGER NOT NULL DEFAULT 0, -- the last minute since the epoch that was added to its hour
    errors_bare   INTEGER NOT NULL DEFAULT 0  -- errors up to this moment are recorded without an example
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queue_lane (
    namespace TEXT    NOT NULL,
    lane      TEXT    NOT NULL,
    patience  INTEGER NOT NULL, -- ms
    tier      INTEGER NOT NULL DEFAULT 0,
    ordering  TEXT    NOT NULL DEFAULT 'lateness', -- or 'oldest', 'newest'
    PRIMARY KEY (namespace, lane)
) WITHOUT ROWID;

-- minute 0 holds the counters since the beginning; the others those of one minute since the epoch.
CREATE TABLE IF NOT EXISTS queue_counter (
    namespace TEXT    NOT NULL,
    minute    INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    value     INTEGER NOT NULL,
    PRIMARY KEY (namespace, minute, name)
) WITHOUT ROWID;

-- How late ids were claimed in one minute since the epoch.
CREATE TABLE IF NOT EXISTS queue_lateness (
    namespace TEXT    NOT NULL,
    minute    INTEGER NOT NULL,
    upper     INTEGER NOT NULL, -- so late at the most, ms
    ids       INTEGER NOT NULL,
    PRIMARY KEY (namespace, minute, upper)
) WITHOUT ROWID;

-- The same of one hour since the epoch; "minutes" says how many minutes were added.
CREATE TABLE IF NOT EXISTS queue_hour (
    namespace TEXT    NOT NULL,
    hour      INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    value     INTEGER NOT NULL,
    PRIMARY KEY (namespace, hour, name)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queue_hour_lateness (
    namespace TEXT    NOT NULL,
    hour      INTEGER NOT NULL,
    upper     INTEGER NOT NULL, -- so late at the most, ms
    ids       INTEGER NOT NULL,
    PRIMARY KEY (namespace, hour, upper)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queue_incoming (
    namespace  TEXT    NOT NULL,
    member     TEXT    NOT NULL,
    created_at INTEGER NOT NULL, -- the item's date; 0: take it from the id
    PRIMARY KEY (namespace, member)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queue_incoming_refused (
    namespace TEXT NOT NULL,
    member    TEXT NOT NULL,
    reason    TEXT NOT NULL,
    at        INTEGER NOT NULL DEFAULT 0, -- when it was refused; 0: by a version that did not say
    PRIMARY KEY (namespace, member)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS queue_worker (
    namespace TEXT    NOT NULL,
    worker    TEXT    NOT NULL,
    beat      INTEGER NOT NULL,
    fields    TEXT    NOT NULL, -- a JSON object
    PRIMARY KEY (namespace, worker)
) WITHOUT ROWID;

-- Errors that workers recorded: one row for each kind and place.
CREATE TABLE IF NOT EXISTS queue_error (
    namespace TEXT    NOT NULL,
    place     TEXT    NOT NULL, -- pipeline, kind, host and endpoint
    last      INTEGER NOT NULL, -- when the last one occurred
    error     TEXT    NOT NULL, -- a JSON object
    PRIMARY KEY (namespace, place)
) WITHOUT ROWID;
