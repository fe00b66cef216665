-- With CROSS JOIN, SQLite looks up each given row instead of reading all given rows for each member.
INSERT INTO community_appearance (namespace, account, source, reason, post, first_at)
SELECT $1, given.value ->> 0, given.value ->> 1, given.value ->> 2, given.value ->> 3, $3 FROM json_each($2) AS given
CROSS JOIN community_account AS known
WHERE known.namespace = $1 AND known.account = given.value ->> 1 AND known.state = 'member'
ON CONFLICT DO NOTHING
