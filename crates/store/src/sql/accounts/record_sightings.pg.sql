-- Each account is named once, in the order of the ids, so overlapping batches wait for each other and cannot
-- deadlock. An account that shows a post of a blocked person still counts as active.
WITH given AS MATERIALIZED (SELECT value ->> 0 AS id, value ->> 1 AS post, (value ->> 2)::bigint AS at
    FROM json_array_elements($2::json) AS given (value)),
seen AS (
    INSERT INTO account_post
    SELECT $1, given.id, post, at FROM given
    JOIN tweet ON tweet.namespace = $1 AND tweet.id = given.id
    WHERE (NOT EXISTS (SELECT FROM forgotten_person) OR substring(post FROM '^(?:at://)?(did:[^/]+)/') IS NULL
        OR substring(post FROM '^(?:at://)?(did:[^/]+)/') <> ALL((SELECT forgotten_among($3))::text[]))
    ORDER BY given.id COLLATE "C", post COLLATE "C"
    ON CONFLICT DO NOTHING
),
locked AS MATERIALIZED (SELECT account.id, newest.at FROM (SELECT id, MAX(at) AS at FROM given GROUP BY id) AS newest
    JOIN account ON account.namespace = $1 AND account.id = newest.id
    WHERE active_at IS NULL OR active_at < newest.at ORDER BY account.id FOR UPDATE OF account)
UPDATE account SET active_at = GREATEST(account.active_at, locked.at) FROM locked
WHERE account.namespace = $1 AND account.id = locked.id
