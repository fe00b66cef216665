-- Times are milliseconds since the Unix epoch, as everywhere in this program.

-- Rows hold whole objects (kilobytes), so the table keeps its rowid: a key's B-tree of rows this
-- large would be deep and slow to walk.
CREATE TABLE tweet (
    namespace        TEXT    NOT NULL, -- the pipeline, as in the queue: tweet:update
    id               TEXT    NOT NULL, -- the id under which it is looked up
    state            TEXT    NOT NULL CHECK (state IN ('live', 'unavailable', 'ended', 'dead')),
    created_at       INTEGER,          -- when it was made, ms
    current_id       TEXT,             -- the newest known id of it (after edits), where it differs
    text             TEXT,
    author_id        TEXT,
    author_name      TEXT,
    retweet_count    INTEGER,          -- as of the newest answer that gave it; NULL: never given
    favorite_count   INTEGER,
    reply_count      INTEGER,
    quote_count      INTEGER,
    bookmark_count   INTEGER,
    impression_count INTEGER,
    withheld_in      TEXT,             -- country codes, comma separated; NULL: not withheld
    raw              TEXT,             -- the newest object as the provider sent it (JSON)
    first_seen       INTEGER NOT NULL, -- when it was recorded, ms
    checked_at       INTEGER,          -- when the newest stored answer was given, ms; NULL: before the first
    changed_at       INTEGER,          -- when an answer last changed a count, ms: its newest history row
    next_due         INTEGER,          -- when it is due again, ms; NULL: its life is over
    lookups          INTEGER NOT NULL, -- answers stored about it
    misses           INTEGER NOT NULL, -- how often in a row it was not returned
    missing_since    INTEGER,          -- when the first of these misses was answered, ms
    reason           TEXT,             -- why it is dead
    PRIMARY KEY (namespace, id)
) STRICT;

-- For a rebuild of the queue: what still has a life, soonest first, page by page.
CREATE INDEX tweet_by_due ON tweet (namespace, next_due, id) WHERE state IN ('live', 'unavailable');

-- For the counts by state: read from the index alone, not from rows of kilobytes.
CREATE INDEX tweet_by_state ON tweet (namespace, state);

-- The history of the counts: a row holds from checked_at (ms) to the next row. Small rows, always
-- reached by their key: no rowid.
CREATE TABLE tweet_metrics (
    namespace        TEXT    NOT NULL,
    id               TEXT    NOT NULL,
    checked_at       INTEGER NOT NULL,
    retweet_count    INTEGER,
    favorite_count   INTEGER,
    reply_count      INTEGER,
    quote_count      INTEGER,
    bookmark_count   INTEGER,
    impression_count INTEGER,
    PRIMARY KEY (namespace, id, checked_at)
) STRICT, WITHOUT ROWID;
