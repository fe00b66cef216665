-- The statement reads `forgotten_person` directly, so it waits for `forget` before it reads rows, and skips blocked
-- accounts. Neither an account nor the author in the id of a post may be blocked.
INSERT INTO community_appearance (namespace, account, source, reason, post, first_at)
SELECT $1, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3, $3
FROM json_array_elements(CAST($2 AS json)) AS given (value)
CROSS JOIN community_account AS known
WHERE known.namespace = $1 AND known.account = given.value ->> 1 AND known.state = 'member'
    AND (NOT EXISTS (SELECT FROM forgotten_person) OR given.value ->> 0 IS NULL
        OR given.value ->> 0 <> ALL((SELECT forgotten_among($4))::text[]))
    AND (NOT EXISTS (SELECT FROM forgotten_person)
        OR substring(given.value ->> 3 FROM '^(?:at://)?(did:[^/]+)/') IS NULL
        OR substring(given.value ->> 3 FROM '^(?:at://)?(did:[^/]+)/') <> ALL((SELECT forgotten_among($4))::text[]))
ON CONFLICT DO NOTHING
