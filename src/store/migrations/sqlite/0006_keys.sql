-- Rows lie in the order in which tweets came, and what belongs to a tweet lies beside its like by the tweet's key: what is
-- written of a batch stands close together, whatever the ids are. The tables of before are views now.

CREATE TABLE tweet_new (
    key              INTEGER PRIMARY KEY,
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
    first_seen       INTEGER NOT NULL, -- when it was recorded, ms
    checked_at       INTEGER,          -- when the newest stored answer was given, ms; NULL: before the first
    changed_at       INTEGER,          -- when an answer last changed a count, ms: its newest history row
    next_due         INTEGER,          -- when it is due again, ms; NULL: its life is over
    lookups          INTEGER NOT NULL, -- answers stored about it
    misses           INTEGER NOT NULL, -- how often in a row it was not returned
    missing_since    INTEGER,          -- when the first of these misses was answered, ms
    reason           TEXT,             -- why it is dead
    lang             TEXT,             -- what researchers filter by; NULL: the network has no such thing, or does not say
    reply_to         TEXT,             -- the id of the post it replies to
    retweet_of       TEXT,             -- the id of the post that it repeats
    quote_of         TEXT,             -- the id of the post that it quotes
    conversation_id  TEXT,             -- the id of the post that the conversation began with
    reply_settings   TEXT,             -- who may reply (X)
    truncated        INTEGER,          -- 1: the text is cut short, and the rest is not in the object
    unreadable       TEXT,             -- why its newest answer could not be read; NULL: it could
    raw              TEXT,             -- the newest object as the provider sent it (JSON); last, since it is long
    UNIQUE (namespace, id)
) STRICT;

INSERT INTO tweet_new (
    namespace, id, state, created_at, current_id, text, author_id, author_name, retweet_count, favorite_count, reply_count,
    quote_count, bookmark_count, impression_count, withheld_in, first_seen, checked_at, changed_at, next_due, lookups, misses,
    missing_since, reason, lang, reply_to, retweet_of, quote_of, conversation_id, reply_settings, truncated, unreadable, raw)
SELECT
    namespace, id, state, created_at, current_id, text, author_id, author_name, retweet_count, favorite_count, reply_count,
    quote_count, bookmark_count, impression_count, withheld_in, first_seen, checked_at, changed_at, next_due, lookups, misses,
    missing_since, reason, lang, reply_to, retweet_of, quote_of, conversation_id, reply_settings, truncated, unreadable, raw
FROM tweet ORDER BY rowid;

CREATE TABLE tweet_metrics_row (
    tweet            INTEGER NOT NULL, -- its key
    checked_at       INTEGER NOT NULL,
    retweet_count    INTEGER,
    favorite_count   INTEGER,
    reply_count      INTEGER,
    quote_count      INTEGER,
    bookmark_count   INTEGER,
    impression_count INTEGER,
    PRIMARY KEY (tweet, checked_at)
) STRICT, WITHOUT ROWID;

INSERT INTO tweet_metrics_row
SELECT tweet_new.key, old.checked_at, old.retweet_count, old.favorite_count, old.reply_count, old.quote_count,
       old.bookmark_count, old.impression_count
FROM tweet_new JOIN tweet_metrics AS old ON old.namespace = tweet_new.namespace AND old.id = tweet_new.id
ORDER BY tweet_new.key, old.checked_at;

CREATE TABLE tweet_change_row (
    tweet     INTEGER NOT NULL,
    at        INTEGER NOT NULL, -- when the answer was given that showed it, ms
    field     TEXT    NOT NULL CHECK (field IN ('text', 'current_id', 'withheld_in', 'reply_settings', 'state')),
    old_value TEXT,
    new_value TEXT,
    PRIMARY KEY (tweet, at, field)
) STRICT, WITHOUT ROWID;

INSERT INTO tweet_change_row
SELECT tweet_new.key, old.at, old.field, old.old_value, old.new_value
FROM tweet_new JOIN tweet_change AS old ON old.namespace = tweet_new.namespace AND old.id = tweet_new.id
ORDER BY tweet_new.key, old.at, old.field;

CREATE TABLE tweet_way_row (
    tweet     INTEGER NOT NULL,
    pipeline  TEXT    NOT NULL, -- enqueue, http, incoming, poll, stream, rebuild
    source    TEXT    NOT NULL, -- the name of a file, or of a source in the settings; '' where there is one only
    query     TEXT,             -- what that source asks for: a query, an account
    first_at  INTEGER NOT NULL, -- ms
    PRIMARY KEY (tweet, pipeline, source)
) STRICT, WITHOUT ROWID;

INSERT INTO tweet_way_row
SELECT tweet_new.key, old.pipeline, old.source, old.query, old.first_at
FROM tweet_new JOIN tweet_way AS old ON old.namespace = tweet_new.namespace AND old.id = tweet_new.id
ORDER BY tweet_new.key, old.pipeline, old.source;

DROP TABLE tweet_metrics;
DROP TABLE tweet_change;
DROP TABLE tweet_way;
DROP TABLE tweet; -- with its indexes and its trigger
ALTER TABLE tweet_new RENAME TO tweet;

-- A save that leaves the state as it was writes none of these: see store/sqlite.rs.
CREATE INDEX tweet_by_state ON tweet (namespace, state);
CREATE INDEX tweet_living ON tweet (namespace, id) WHERE state IN ('live', 'unavailable');
CREATE INDEX tweet_dead ON tweet (namespace, id) WHERE state = 'dead';

CREATE VIEW tweet_metrics AS
SELECT tweet.namespace, tweet.id, of.checked_at, of.retweet_count, of.favorite_count, of.reply_count, of.quote_count,
       of.bookmark_count, of.impression_count
FROM tweet JOIN tweet_metrics_row AS of ON of.tweet = tweet.key;

CREATE VIEW tweet_change AS
SELECT tweet.namespace, tweet.id, of.at, of.field, of.old_value, of.new_value
FROM tweet JOIN tweet_change_row AS of ON of.tweet = tweet.key;

CREATE VIEW tweet_way AS
SELECT tweet.namespace, tweet.id, of.pipeline, of.source, of.query, of.first_at
FROM tweet JOIN tweet_way_row AS of ON of.tweet = tweet.key;

-- As in 0004, by the key.
CREATE TRIGGER tweet_changes AFTER UPDATE ON tweet
WHEN NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (
    NEW.text <> OLD.text
    OR NEW.current_id IS DISTINCT FROM OLD.current_id
    OR NEW.withheld_in IS DISTINCT FROM OLD.withheld_in
    OR NEW.reply_settings <> OLD.reply_settings
    OR NEW.state <> OLD.state
)
BEGIN
    INSERT INTO tweet_change_row
    SELECT NEW.key, NEW.checked_at, 'text', OLD.text, NEW.text
    WHERE NEW.text <> OLD.text AND OLD.truncated IS NOT TRUE AND NEW.retweet_of IS NULL
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'current_id', OLD.current_id, NEW.current_id
    WHERE NEW.current_id IS DISTINCT FROM OLD.current_id
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'withheld_in', OLD.withheld_in, NEW.withheld_in
    WHERE NEW.withheld_in IS DISTINCT FROM OLD.withheld_in AND OLD.checked_at IS NOT NULL
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'reply_settings', OLD.reply_settings, NEW.reply_settings
    WHERE NEW.reply_settings <> OLD.reply_settings
    UNION ALL
    SELECT NEW.key, NEW.checked_at, 'state', OLD.state, NEW.state
    WHERE NEW.state <> OLD.state AND 'unavailable' IN (OLD.state, NEW.state) AND OLD.checked_at IS NOT NULL;
END;
