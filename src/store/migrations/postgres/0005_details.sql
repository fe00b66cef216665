-- A statement that reads the table for long (a dump) would hold these up, and they everybody else: given up rather than waited
-- for, so that it can be run again later.
SET LOCAL lock_timeout = '10s';

-- What researchers filter by, out of the raw object; NULL: the network has no such thing, or the object does not say.
ALTER TABLE tweet
    ADD COLUMN lang            TEXT,
    ADD COLUMN reply_to        TEXT,
    ADD COLUMN retweet_of      TEXT,
    ADD COLUMN quote_of        TEXT,
    ADD COLUMN conversation_id TEXT,
    ADD COLUMN reply_settings  TEXT,
    ADD COLUMN truncated       BOOLEAN,
    ADD COLUMN unreadable      TEXT;

COMMENT ON COLUMN tweet.lang IS 'Its language, as the network calls it';
COMMENT ON COLUMN tweet.reply_to IS 'The id of the post it replies to';
COMMENT ON COLUMN tweet.retweet_of IS 'The id of the post that it repeats';
COMMENT ON COLUMN tweet.quote_of IS 'The id of the post that it quotes';
COMMENT ON COLUMN tweet.conversation_id IS 'The id of the post that the conversation began with';
COMMENT ON COLUMN tweet.reply_settings IS 'Who may reply (X)';
COMMENT ON COLUMN tweet.truncated IS 'Whether the text is cut short, and the rest is not in the object';
COMMENT ON COLUMN tweet.unreadable IS 'Why its newest answer could not be read; NULL: it could';

-- The changes of a tweet itself, beside its counts.
CREATE TABLE tweet_change (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    field     TEXT NOT NULL CHECK (field IN ('text', 'current_id', 'withheld_in', 'reply_settings', 'state')),
    old_value TEXT,
    new_value TEXT,
    PRIMARY KEY (namespace, id, at, field)
);

COMMENT ON TABLE tweet_change IS 'Changes of a tweet itself: its text and version (edits), where it is withheld, who may reply, whether it is returned. As it was is here, as it is is in tweet';
COMMENT ON COLUMN tweet_change.at IS 'When the answer was given that showed it, ms since the epoch';

-- Written beside the row by the database itself, so that no writer can forget it. What stands in the row before its first
-- answer came from an ingest: only its text and version are compared. A text that was cut short and is whole now is no edit,
-- and neither is another text of a retweet: retweets cannot be edited, and the version before stored their texts cut short.
CREATE FUNCTION tweet_changes() RETURNS trigger LANGUAGE plpgsql AS $$
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
    RETURN NULL;
END
$$;

CREATE TRIGGER tweet_changes AFTER UPDATE ON tweet FOR EACH ROW
WHEN (NEW.checked_at IS DISTINCT FROM OLD.checked_at AND (
    NEW.text <> OLD.text
    OR NEW.current_id IS DISTINCT FROM OLD.current_id
    OR NEW.withheld_in IS DISTINCT FROM OLD.withheld_in
    OR NEW.reply_settings <> OLD.reply_settings
    OR NEW.state <> OLD.state
))
EXECUTE FUNCTION tweet_changes();

CREATE TABLE tweet_way (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    pipeline  TEXT NOT NULL,
    source    TEXT NOT NULL,
    query     TEXT,
    first_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, pipeline, source)
);

COMMENT ON TABLE tweet_way IS 'By which ways a tweet came: all of them, each with the first time';
COMMENT ON COLUMN tweet_way.pipeline IS 'enqueue, http, incoming, poll, stream, rebuild';
COMMENT ON COLUMN tweet_way.source IS 'The name of a file, or of a source in the settings; empty where there is one only';
COMMENT ON COLUMN tweet_way.query IS 'What that source asks for: a query, an account';
COMMENT ON COLUMN tweet_way.first_at IS 'Ms since the epoch';

CREATE TABLE tweet_fill (
    namespace TEXT COLLATE "C" PRIMARY KEY,
    after_id  TEXT COLLATE "C" NOT NULL
);

COMMENT ON TABLE tweet_fill IS 'Whose details are still to be read out of the raw objects, and up to which id that is done';

-- The namespaces there are, found by leaps over the key.
WITH RECURSIVE known (namespace) AS (
    SELECT MIN(namespace) FROM tweet
    UNION ALL
    SELECT (SELECT MIN(namespace) FROM tweet WHERE namespace > known.namespace) FROM known WHERE known.namespace IS NOT NULL
)
INSERT INTO tweet_fill SELECT namespace, '' FROM known WHERE namespace IS NOT NULL;
