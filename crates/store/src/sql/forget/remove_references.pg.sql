-- A late answer changes nothing: a newer one is stored.
WITH said AS (SELECT post.id, post.author_id FROM tweet AS post
    JOIN unnest($2, $5::bigint[]) AS given (id, at) ON post.namespace = $1 AND post.id = given.id
    WHERE post.checked_at IS NULL OR post.checked_at <= given.at),
languages AS (DELETE FROM post_language WHERE namespace = $1 AND id IN (SELECT id FROM said)),
visits AS (DELETE FROM tweet_way WHERE namespace = $1 AND id IN (SELECT id FROM said) AND pipeline = 'visit'),
found AS (
    DELETE FROM community_appearance
    WHERE post COLLATE "C" IN (SELECT id FROM said) AND starts_with(namespace, $4) AND reason = 'search'
),
shown AS (
    UPDATE community_appearance SET post = NULL
    WHERE post COLLATE "C" IN (SELECT id FROM said) AND starts_with(namespace, $4) AND reason <> 'search'
)
DELETE FROM account_post AS of
USING said AS post
WHERE of.namespace = ANY($3) AND of.id = post.author_id AND of.post = post.id
