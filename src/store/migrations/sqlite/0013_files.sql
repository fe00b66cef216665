-- The files of media: which there are, and their bytes together. A file is taken here before it is put into the folder or the
-- bucket, so its bytes count before they are there, for all processes; and one that no medium came to name is found.

CREATE TABLE media_file (
    sha256   TEXT    NOT NULL PRIMARY KEY,
    bytes    INTEGER NOT NULL,
    at       INTEGER NOT NULL, -- when it was last put there or met again, ms
    removing INTEGER           -- since when it is being removed, ms
) STRICT, WITHOUT ROWID;

INSERT INTO media_file (sha256, bytes, at)
SELECT sha256, COALESCE(max(bytes), 0), COALESCE(max(checked_at), 0) FROM media_row
WHERE state = 'stored' AND sha256 IS NOT NULL GROUP BY sha256;

CREATE TABLE media_room (
    one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- one row
    bytes INTEGER NOT NULL                               -- of all files together
) STRICT;

INSERT INTO media_room SELECT 1, COALESCE(SUM(bytes), 0) FROM media_file;

CREATE TRIGGER media_room_more AFTER INSERT ON media_file BEGIN
    UPDATE media_room SET bytes = bytes + NEW.bytes;
END;

CREATE TRIGGER media_room_less AFTER DELETE ON media_file BEGIN
    UPDATE media_room SET bytes = bytes - OLD.bytes;
END;
