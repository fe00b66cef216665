-- Locks the row of the room first, as a reservation does.
WITH room AS MATERIALIZED (SELECT bytes FROM media_room FOR UPDATE)
DELETE FROM media_file USING room WHERE sha256 = ANY($1) AND removing = $2
