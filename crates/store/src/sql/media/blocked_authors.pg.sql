-- Blocks `forget` until the end of the transaction.
SELECT CASE WHEN EXISTS (SELECT FROM forgotten_person) THEN forgotten_among($1) ELSE '{}' END
