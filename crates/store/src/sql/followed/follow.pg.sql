-- In the order of the ids, so two calls wait for each other and cannot deadlock.
WITH given AS (SELECT account, part FROM UNNEST($3::text[], $4::bigint[]) AS given (account, part)
    WHERE (NOT EXISTS (SELECT FROM forgotten_person) OR account IS NULL
        OR account <> ALL((SELECT forgotten_among($5))::text[]))),
written AS (
    INSERT INTO visit (namespace, account, part, followed_at)
    SELECT DISTINCT ON (account COLLATE "C") $1, account, part, $2 FROM given ORDER BY account COLLATE "C"
    ON CONFLICT (namespace, account) DO UPDATE SET
        part = CASE WHEN visit.left_at IS NULL THEN visit.part ELSE EXCLUDED.part END,
        followed_at = CASE WHEN visit.left_at IS NULL THEN visit.followed_at ELSE EXCLUDED.followed_at END,
        left_at = NULL
    RETURNING account, part
)
SELECT account, part FROM written
