-- In the order of the ids, so that two pages wait for each other and cannot deadlock. Only new ids: a conflict uses
-- up a number.
INSERT INTO list_account (network, id)
SELECT network.key, given.id FROM list_network AS network, UNNEST($2::text[]) AS given (id)
WHERE network.name = $1
    AND (NOT EXISTS (SELECT FROM forgotten_person) OR given.id IS NULL
        OR given.id <> ALL((SELECT forgotten_among($3))::text[]))
ORDER BY given.id COLLATE "C"
ON CONFLICT DO NOTHING
RETURNING id, key::bigint
