-- The statement locks the row of the room to its end, so the next one sees its bytes.
WITH room AS MATERIALIZED (SELECT bytes FROM media_room FOR UPDATE),
taken AS (
    INSERT INTO media_file AS of (sha256, bytes, at)
    SELECT $1, $2, $3 FROM room
    WHERE $4 = 0 OR room.bytes + $2 <= $4 OR EXISTS (SELECT 1 FROM media_file WHERE sha256 = $1)
    ON CONFLICT (sha256) DO UPDATE SET at = GREATEST(of.at, excluded.at), removing = NULL
    WHERE of.removing IS NULL OR of.removing < $3 - $5
    RETURNING xmax = 0 AS is_new
)
SELECT (SELECT is_new FROM taken), EXISTS (SELECT 1 FROM media_file WHERE sha256 = $1), room.bytes FROM room
