-- Media of posts: what is known of each beside its row in tweet, which holds its life (state, due times), and which posts
-- show it.

CREATE TABLE media_row (
    tweet         INTEGER PRIMARY KEY,  -- the key of its row in tweet
    url           TEXT    NOT NULL,     -- the address of its file
    kind          TEXT    NOT NULL,     -- photo, video, gif, audio or unknown, as the network tells it
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'stored', 'gone', 'refused', 'failed', 'removed')),
    bytes         INTEGER,              -- the size of its file
    type          TEXT,                 -- by the first bytes of its file: image/jpeg
    sha256        TEXT,                 -- of the bytes of its file, whose name it is
    attempts      INTEGER NOT NULL DEFAULT 0, -- failures so far
    failing_since INTEGER,              -- when the first of the failures in a row was, ms
    reason        TEXT,                 -- why it is not stored
    first_at      INTEGER NOT NULL,     -- when a post named it first, ms
    checked_at    INTEGER               -- when it was last tried, ms
) STRICT;

CREATE INDEX media_by_hash ON media_row (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE media_use_row (
    tweet    INTEGER NOT NULL,
    post     TEXT    NOT NULL, -- the id of the post that shows it
    first_at INTEGER NOT NULL, -- when that was seen first, ms
    PRIMARY KEY (tweet, post)
) STRICT, WITHOUT ROWID;

CREATE INDEX media_use_by_post ON media_use_row (post);

CREATE VIEW media AS
SELECT tweet.namespace, tweet.id, of.url, of.kind, of.state, of.bytes, of.type, of.sha256, of.attempts, of.failing_since,
       of.reason, of.first_at, of.checked_at
FROM tweet JOIN media_row AS of ON of.tweet = tweet.key;

CREATE VIEW media_use AS
SELECT tweet.namespace, tweet.id, of.post, of.first_at
FROM tweet JOIN media_use_row AS of ON of.tweet = tweet.key;
