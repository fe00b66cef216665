DELETE FROM post_language_row
WHERE tweet IN (SELECT key FROM tweet WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2)))
