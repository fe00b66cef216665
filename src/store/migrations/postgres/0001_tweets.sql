-- Times are milliseconds since the Unix epoch, as everywhere in this program: BIGINT, no time zone.
-- Ids compare by bytes (COLLATE "C"): every process locks rows in the same order, whatever its locale,
-- and the index compares without the locale's rules.

CREATE TABLE tweet (
    namespace        TEXT COLLATE "C" NOT NULL,
    id               TEXT COLLATE "C" NOT NULL,
    state            TEXT   NOT NULL CHECK (state IN ('live', 'unavailable', 'ended', 'dead')),
    created_at       BIGINT,
    current_id       TEXT,
    text             TEXT,
    author_id        TEXT,
    author_name      TEXT,
    retweet_count    BIGINT,
    favorite_count   BIGINT,
    reply_count      BIGINT,
    quote_count      BIGINT,
    bookmark_count   BIGINT,
    impression_count BIGINT,
    withheld_in      TEXT,
    raw              TEXT,
    first_seen       BIGINT NOT NULL,
    checked_at       BIGINT,
    changed_at       BIGINT,
    next_due         BIGINT,
    lookups          BIGINT NOT NULL,
    misses           BIGINT NOT NULL,
    missing_since    BIGINT,
    reason           TEXT,
    PRIMARY KEY (namespace, id)
);

-- For a rebuild of the queue: what still has a life, soonest first, page by page.
CREATE INDEX tweet_by_due ON tweet (namespace, next_due, id) WHERE state IN ('live', 'unavailable');

-- For the counts by state: read from the index alone, not from rows of kilobytes.
CREATE INDEX tweet_by_state ON tweet (namespace, state);

COMMENT ON TABLE tweet IS 'The current state of each tweet. Written by twitter-updater alone';
COMMENT ON COLUMN tweet.namespace IS 'The pipeline, as in the queue: tweet:update';
COMMENT ON COLUMN tweet.id IS 'The id under which it is looked up';
COMMENT ON COLUMN tweet.state IS 'live: updated by age; unavailable: not returned lately; ended: its life is over; dead: buried';
COMMENT ON COLUMN tweet.created_at IS 'When it was made, ms since the epoch';
COMMENT ON COLUMN tweet.current_id IS 'The newest known id of it (after edits), where it differs';
COMMENT ON COLUMN tweet.retweet_count IS 'As of the newest answer that gave it; NULL: never given. So the other counts';
COMMENT ON COLUMN tweet.withheld_in IS 'Countries in which it is withheld, comma separated (XY: everywhere); NULL: not withheld';
COMMENT ON COLUMN tweet.raw IS 'The newest object as the provider sent it (JSON)';
COMMENT ON COLUMN tweet.first_seen IS 'When it was recorded, ms since the epoch';
COMMENT ON COLUMN tweet.checked_at IS 'When the newest stored answer was given, ms since the epoch; NULL: before the first';
COMMENT ON COLUMN tweet.changed_at IS 'When an answer last changed a count, ms since the epoch: the newest row of its history';
COMMENT ON COLUMN tweet.next_due IS 'When it is due again, ms since the epoch; NULL: its life is over';
COMMENT ON COLUMN tweet.lookups IS 'Answers stored about it';
COMMENT ON COLUMN tweet.misses IS 'How often in a row it was not returned';
COMMENT ON COLUMN tweet.missing_since IS 'When the first of these misses was answered, ms since the epoch';
COMMENT ON COLUMN tweet.reason IS 'Why it is dead';

CREATE TABLE tweet_metrics (
    namespace        TEXT COLLATE "C" NOT NULL,
    id               TEXT COLLATE "C" NOT NULL,
    checked_at       BIGINT NOT NULL,
    retweet_count    BIGINT,
    favorite_count   BIGINT,
    reply_count      BIGINT,
    quote_count      BIGINT,
    bookmark_count   BIGINT,
    impression_count BIGINT,
    PRIMARY KEY (namespace, id, checked_at)
);

COMMENT ON TABLE tweet_metrics IS 'The history of the counts: a row holds from checked_at to the next row';
COMMENT ON COLUMN tweet_metrics.checked_at IS 'When the answer was given, ms since the epoch';
