-- What researchers filter by, out of the raw object; NULL: the network has no such thing, or the object does not say.
ALTER TABLE tweet ADD COLUMN lang            TEXT;
ALTER TABLE tweet ADD COLUMN reply_to        TEXT;    -- the id of the post it replies to
ALTER TABLE tweet ADD COLUMN retweet_of      TEXT;    -- the id of the post that it repeats
ALTER TABLE tweet ADD COLUMN quote_of        TEXT;    -- the id of the post that it quotes
ALTER TABLE tweet ADD COLUMN conversation_id TEXT;    -- the id of the post that the conversation began with
ALTER TABLE tweet ADD COLUMN reply_settings  TEXT;    -- who may reply (X)
ALTER TABLE tweet ADD COLUMN truncated       INTEGER; -- 1: the text is cut short, and the rest is not in the object
ALTER TABLE tweet ADD COLUMN unreadable      TEXT;    -- why its newest answer could not be read; NULL: it could

-- The changes of a tweet itself, beside its counts: its text and version (edits), where it is withheld, who may reply, and
-- whether it is returned. As they were is here, as they are is in tweet.
CREATE TABLE tweet_change (
    namespace TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    at        INTEGER NOT NULL, -- when the answer was given that showed it, ms
    field     TEXT    NOT NULL CHECK (field IN ('text', 'current_id', 'withheld_in', 'reply_settings', 'state')),
    old_value TEXT,
    new_value TEXT,
    PRIMARY KEY (namespace, id, at, field)
) STRICT, WITHOUT ROWID;

-- Written beside the row by the database itself, so that no writer can forget it. What stands in the row before its first
-- answer came from an ingest: only its text and version are compared. A text that was cut short and is whole now is no edit,
-- and neither is another text of a retweet: retweets cannot be edited, and the version before stored their texts cut short.
CREATE TRIGGER tweet_changes AFTER UPDATE ON tweet
WHEN NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (
    NEW.text <> OLD.text
    OR NEW.current_id IS DISTINCT FROM OLD.current_id
    OR NEW.withheld_in IS DISTINCT FROM OLD.withheld_in
    OR NEW.reply_settings <> OLD.reply_settings
    OR NEW.state <> OLD.state
)
BEGIN
    INSERT INTO tweet_change
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'text', OLD.text, NEW.text
    WHERE NEW.text <> OLD.text AND OLD.truncated IS NOT TRUE AND NEW.retweet_of IS NULL
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'current_id', OLD.current_id, NEW.current_id
    WHERE NEW.current_id IS DISTINCT FROM OLD.current_id
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'withheld_in', OLD.withheld_in, NEW.withheld_in
    WHERE NEW.withheld_in IS DISTINCT FROM OLD.withheld_in AND OLD.checked_at IS NOT NULL
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'reply_settings', OLD.reply_settings, NEW.reply_settings
    WHERE NEW.reply_settings <> OLD.reply_settings
    UNION ALL
    SELECT NEW.namespace, NEW.id, NEW.checked_at, 'state', OLD.state, NEW.state
    WHERE NEW.state <> OLD.state AND 'unavailable' IN (OLD.state, NEW.state) AND OLD.checked_at IS NOT NULL;
END;

-- By which ways a tweet came: all of them, each with the first time.
CREATE TABLE tweet_way (
    namespace TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    pipeline  TEXT    NOT NULL, -- enqueue, http, incoming, poll, stream, rebuild
    source    TEXT    NOT NULL, -- the name of a file, or of a source in the settings; '' where there is one only
    query     TEXT,             -- what that source asks for: a query, an account
    first_at  INTEGER NOT NULL, -- ms
    PRIMARY KEY (namespace, id, pipeline, source)
) STRICT, WITHOUT ROWID;

-- Whose details are still to be read out of the raw objects, and up to which id that is done.
CREATE TABLE tweet_fill (
    namespace TEXT NOT NULL PRIMARY KEY,
    after_id  TEXT NOT NULL
) STRICT;

-- The namespaces there are, found by leaps over the key.
WITH RECURSIVE known (namespace) AS (
    SELECT MIN(namespace) FROM tweet
    UNION ALL
    SELECT (SELECT MIN(namespace) FROM tweet WHERE namespace > known.namespace) FROM known WHERE known.namespace IS NOT NULL
)
INSERT INTO tweet_fill SELECT namespace, '' FROM known WHERE namespace IS NOT NULL;
