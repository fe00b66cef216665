-- Media of posts: what is known of each beside its row in tweet, which holds its life (state, due times), and which posts
-- show it.

CREATE TABLE media (
    namespace     TEXT COLLATE "C" NOT NULL,
    id            TEXT COLLATE "C" NOT NULL,
    url           TEXT NOT NULL,
    kind          TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('waiting', 'stored', 'gone', 'refused', 'failed', 'removed')),
    bytes         BIGINT,
    type          TEXT,
    sha256        TEXT COLLATE "C",
    attempts      BIGINT NOT NULL DEFAULT 0,
    failing_since BIGINT,
    reason        TEXT,
    first_at      BIGINT NOT NULL,
    checked_at    BIGINT,
    PRIMARY KEY (namespace, id)
);

COMMENT ON TABLE media IS 'A picture, video or sound of posts. Its life (due times) is its row in tweet';
COMMENT ON COLUMN media.namespace IS 'The pipeline, as in the queue: media:twitter';
COMMENT ON COLUMN media.url IS 'The address of its file';
COMMENT ON COLUMN media.kind IS 'photo, video, gif, audio or unknown, as the network tells it';
COMMENT ON COLUMN media.state IS 'waiting, stored, gone (its host does not give it), refused (too large, of another type, not on the public internet), failed (for too long) or removed (no stored post shows it any more)';
COMMENT ON COLUMN media.bytes IS 'The size of its file';
COMMENT ON COLUMN media.type IS 'By the first bytes of its file: image/jpeg';
COMMENT ON COLUMN media.sha256 IS 'Of the bytes of its file, whose name it is';
COMMENT ON COLUMN media.attempts IS 'Failures so far';
COMMENT ON COLUMN media.failing_since IS 'When the first of the failures in a row was, ms since the epoch';
COMMENT ON COLUMN media.reason IS 'Why it is not stored';
COMMENT ON COLUMN media.first_at IS 'When a post named it first, ms since the epoch';
COMMENT ON COLUMN media.checked_at IS 'When it was last tried, ms since the epoch';

CREATE INDEX media_by_hash ON media (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE media_use (
    namespace TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    post      TEXT COLLATE "C" NOT NULL,
    first_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, id, post)
);

COMMENT ON TABLE media_use IS 'A post that shows a medium';
COMMENT ON COLUMN media_use.post IS 'The id of the post';
COMMENT ON COLUMN media_use.first_at IS 'When that was seen first, ms since the epoch';

CREATE INDEX media_use_by_post ON media_use (namespace, post);
