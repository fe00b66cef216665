-- Its own posts that others showed.
WITH gone AS (
    DELETE FROM account_post
    WHERE namespace = ANY($1) AND starts_with(post, 'at://' || ($2::text[])[1] || '/')
    RETURNING 1
)
SELECT count(*) FROM gone
