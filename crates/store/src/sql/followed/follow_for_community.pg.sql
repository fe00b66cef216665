-- `known`: the marks of accounts in all communities, locked, so they include changes of concurrent calls. The row in
-- `visit` is written here, so that concurrent follows of the account wait: there may be no row to lock.
WITH known AS MATERIALIZED (SELECT namespace, account, follows FROM community_account
    WHERE namespace = ANY($5) AND account = ANY($3) ORDER BY account, namespace FOR UPDATE),
given AS (SELECT account, part FROM UNNEST($3::text[], $6::bigint[]) AS given (account, part)
    WHERE account IN (SELECT account FROM known WHERE namespace = $4)
        AND (NOT EXISTS (SELECT FROM forgotten_person) OR account IS NULL
            OR account <> ALL((SELECT forgotten_among($7))::text[]))),
taken AS (
    INSERT INTO visit (namespace, account, part, followed_at)
    SELECT DISTINCT ON (account COLLATE "C") $1, account, part, $2 FROM given ORDER BY account COLLATE "C"
    ON CONFLICT (namespace, account) DO UPDATE SET
        part = EXCLUDED.part, followed_at = EXCLUDED.followed_at, left_at = NULL
    WHERE visit.left_at IS NOT NULL
    RETURNING account
),
ours AS (SELECT account FROM known GROUP BY account
    HAVING bool_or(namespace = $4) AND (bool_or(follows = 1) OR account IN (SELECT account FROM taken))),
marked AS (
    UPDATE community_account SET follows = 1
    WHERE namespace = $4
        AND account = ANY(ARRAY(
            SELECT account FROM known JOIN ours USING (account) WHERE namespace = $4 AND follows <> 1
        ))
)
SELECT account FROM ours
