-- Appearances in its own posts, of any account.
WITH gone AS (
    DELETE FROM community_appearance
    WHERE namespace = ANY($1) AND starts_with(post, 'at://' || ($2::text[])[1] || '/')
    RETURNING 1
)
SELECT count(*) FROM gone
