-- What keeps a source from being read, also before its first page; and when it last brought a post.

CREATE TABLE source_position_new (
    namespace     TEXT    NOT NULL, -- the pipeline, as in the queue: source:poll:…
    source        TEXT    NOT NULL, -- its name in the settings
    position      TEXT,             -- JSON: since (all up to this id is handed over), latest, open (a round on its way) …
    saved_at      INTEGER,          -- ms
    brought_at    INTEGER,          -- ms: a page last brought a post that was not known, or it was tried first
    failing_since INTEGER,          -- ms: no page could be read since
    failures      INTEGER NOT NULL DEFAULT 0, -- in a row, while other sources were answered
    error         TEXT,             -- the last one
    failed_at     INTEGER,          -- ms: when that was
    PRIMARY KEY (namespace, source)
) STRICT, WITHOUT ROWID;

INSERT INTO source_position_new (namespace, source, position, saved_at, brought_at)
SELECT namespace, source, position, saved_at, saved_at FROM source_position;
DROP TABLE source_position;
ALTER TABLE source_position_new RENAME TO source_position;
