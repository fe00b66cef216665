-- How far each polled source has been read, and what could not be had. Small rows, always reached by their
-- key: no rowid.

CREATE TABLE source_position (
    namespace TEXT    NOT NULL, -- the pipeline, as in the queue: source:poll:…
    source    TEXT    NOT NULL, -- its name in the settings
    position  TEXT    NOT NULL, -- JSON: since (all up to this id is handed over), latest, open (a round on its way) …
    saved_at  INTEGER NOT NULL, -- ms
    PRIMARY KEY (namespace, source)
) STRICT, WITHOUT ROWID;

-- Posts that the API did not give any more, by their ids.
CREATE TABLE source_gap (
    namespace TEXT    NOT NULL,
    source    TEXT    NOT NULL,
    from_id   TEXT    NOT NULL, -- the least that may be missing
    to_id     TEXT    NOT NULL, -- the greatest
    reason    TEXT    NOT NULL,
    noted_at  INTEGER NOT NULL, -- ms
    PRIMARY KEY (namespace, source, from_id, to_id)
) STRICT, WITHOUT ROWID;
