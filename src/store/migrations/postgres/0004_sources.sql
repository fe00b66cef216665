-- How far each polled source has been read, and what could not be had.

CREATE TABLE source_position (
    namespace TEXT COLLATE "C" NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    position  TEXT   NOT NULL,
    saved_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, source)
);

COMMENT ON TABLE source_position IS 'How far each polled source has been read. Written after its posts are';
COMMENT ON COLUMN source_position.namespace IS 'The pipeline, as in the queue: source:poll:…';
COMMENT ON COLUMN source_position.source IS 'The source''s name in the settings';
COMMENT ON COLUMN source_position.position IS 'JSON: since (all up to this id is handed over), latest, open (a round on its way) …';
COMMENT ON COLUMN source_position.saved_at IS 'When it was saved, ms since the epoch';

CREATE TABLE source_gap (
    namespace TEXT COLLATE "C" NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    from_id   TEXT COLLATE "C" NOT NULL,
    to_id     TEXT COLLATE "C" NOT NULL,
    reason    TEXT   NOT NULL,
    noted_at  BIGINT NOT NULL,
    PRIMARY KEY (namespace, source, from_id, to_id)
);

COMMENT ON TABLE source_gap IS 'Posts of a source that the API did not give any more, by their ids';
COMMENT ON COLUMN source_gap.from_id IS 'The least id that may be missing';
COMMENT ON COLUMN source_gap.to_id IS 'The greatest';
COMMENT ON COLUMN source_gap.noted_at IS 'When it was noted, ms since the epoch';
