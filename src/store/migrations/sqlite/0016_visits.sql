-- The followed accounts, whose timelines are visited again and again: see store/followed.rs. Their lives are in tweet.

CREATE TABLE visit (
    namespace   TEXT    NOT NULL, -- the pipeline without its part: visits:twitter
    account     TEXT    NOT NULL,
    part        INTEGER NOT NULL, -- of the work; each has a queue of its own
    followed_at INTEGER NOT NULL, -- ms
    left_at     INTEGER,          -- when it was followed no more, ms; NULL: it is followed
    PRIMARY KEY (namespace, account)
) STRICT, WITHOUT ROWID;

-- What a poller learnt of a source: a rhythm.
ALTER TABLE source_position ADD COLUMN notes TEXT;
