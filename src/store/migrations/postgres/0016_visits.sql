-- The followed accounts, whose timelines are visited again and again: see store/followed.rs. Their lives are in tweet.
CREATE TABLE visit (
    namespace   TEXT COLLATE "C" NOT NULL,
    account     TEXT COLLATE "C" NOT NULL,
    part        BIGINT NOT NULL,
    followed_at BIGINT NOT NULL,
    left_at     BIGINT,
    PRIMARY KEY (namespace, account)
);

COMMENT ON TABLE visit IS 'The accounts whose timelines are visited again and again; their lives are in tweet';
COMMENT ON COLUMN visit.namespace IS 'The pipeline without its part: visits:twitter';
COMMENT ON COLUMN visit.account IS 'The id of the account';
COMMENT ON COLUMN visit.part IS 'The part of the work that it belongs to; each part has a queue of its own';
COMMENT ON COLUMN visit.followed_at IS 'Since when it is followed, ms since the epoch';
COMMENT ON COLUMN visit.left_at IS 'When it was followed no more, ms since the epoch; NULL: it is followed';

ALTER TABLE source_position ADD COLUMN notes TEXT;

COMMENT ON COLUMN source_position.notes IS 'What the poller learnt of the source: a rhythm, as JSON';
