-- All that is known of the post stays. Marked again, it keeps its first reason. People and media as in save.pg.sql.
INSERT INTO tweet (
    namespace, id, state, created_at, current_id, text, author_id, author_name, retweet_count, favorite_count,
    reply_count, quote_count, bookmark_count, impression_count, withheld_in, raw, first_seen, checked_at, changed_at,
    next_due, lookups, misses, missing_since, reason, lang, reply_to, retweet_of, quote_of, conversation_id,
    reply_settings, truncated, unreadable, recent, missing_reason, reply_to_author, labels
)
SELECT $1::text, fresh.*
FROM UNNEST(
    $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::bigint[],
    $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::text[],
    $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[], $31::boolean[], $32::text[],
    $33::double precision[], $34::text[], $35::text[], $36::text[]
) AS fresh (id, state, created_at, current_id, text, author)
WHERE (NOT starts_with($1, 'media:') OR NOT EXISTS (SELECT FROM forgotten_person)
    OR id = ANY(ARRAY(SELECT there.id FROM tweet AS there
        WHERE there.namespace = $1 AND there.id = ANY($2) ORDER BY there.id FOR KEY SHARE)))
    AND (NOT EXISTS (SELECT FROM forgotten_person)
        OR CASE WHEN $38 THEN id ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/')) END IS NULL
        OR CASE WHEN $38 THEN id
            ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/'))
            END <> ALL((SELECT forgotten_among($37))::text[]))
ON CONFLICT (namespace, id) DO UPDATE SET
    state    = 'dead',
    next_due = NULL,
    reason   = excluded.reason
WHERE tweet.state <> 'dead'
