-- The files of media: which there are, and their bytes together. A file is taken here before it is put into the folder or the
-- bucket, so its bytes count before they are there, for all processes; and one that no medium came to name is found.

CREATE TABLE media_file (
    sha256   TEXT COLLATE "C" PRIMARY KEY,
    bytes    BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    removing BIGINT
);

COMMENT ON TABLE media_file IS 'A file of media, kept in the folder or the bucket under its hash';
COMMENT ON COLUMN media_file.at IS 'When it was last put there or met again, ms since the epoch';
COMMENT ON COLUMN media_file.removing IS 'Since when it is being removed, ms since the epoch';

INSERT INTO media_file (sha256, bytes, at)
SELECT sha256, COALESCE(max(bytes), 0), COALESCE(max(checked_at), 0) FROM media
WHERE state = 'stored' AND sha256 IS NOT NULL GROUP BY sha256;

CREATE TABLE media_room (
    one   BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (one),
    bytes BIGINT NOT NULL
);

COMMENT ON TABLE media_room IS 'One row: the bytes of all files of media together';

INSERT INTO media_room (bytes) SELECT COALESCE(SUM(bytes), 0)::bigint FROM media_file;

CREATE FUNCTION media_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE media_room SET bytes = media_room.bytes + COALESCE(NEW.bytes, 0) - COALESCE(OLD.bytes, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER media_room AFTER INSERT OR DELETE ON media_file FOR EACH ROW EXECUTE FUNCTION media_room();
