-- `xmax` is 0 in an inserted row version, and the locker's in an updated one. A visit to a blocked account brings
-- nothing: $39 and $40 are the way. People and media as in save.pg.sql.
WITH written AS (
    INSERT INTO tweet (
        namespace, id, state, created_at, current_id, text, author_id, author_name, retweet_count, favorite_count,
        reply_count, quote_count, bookmark_count, impression_count, withheld_in, raw, first_seen, checked_at,
        changed_at, next_due, lookups, misses, missing_since, reason, lang, reply_to, retweet_of, quote_of,
        conversation_id, reply_settings, truncated, unreadable, recent, missing_reason, reply_to_author, labels
    )
    SELECT $1::text, fresh.*
    FROM UNNEST(
        $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[],
        $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[],
        $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[],
        $24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[], $31::boolean[],
        $32::text[], $33::double precision[], $34::text[], $35::text[], $36::text[]
    ) AS fresh (id, state, created_at, current_id, text, author)
    WHERE (NOT starts_with($1, 'media:') OR NOT EXISTS (SELECT FROM forgotten_person)
        OR id = ANY(ARRAY(SELECT there.id FROM tweet AS there
            WHERE there.namespace = $1 AND there.id = ANY($2) ORDER BY there.id FOR KEY SHARE)))
        AND (NOT EXISTS (SELECT FROM forgotten_person)
            OR CASE WHEN $38 THEN id ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/')) END IS NULL
            OR CASE WHEN $38 THEN id
                ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/'))
                END <> ALL((SELECT forgotten_among($37))::text[]))
        AND ($39 <> 'visit'
            OR (NOT EXISTS (SELECT FROM forgotten_person) OR $40 IS NULL
                OR $40 <> ALL((SELECT forgotten_among($37))::text[])))
    ON CONFLICT (namespace, id) DO UPDATE SET
        state      = 'live',
        created_at = COALESCE(tweet.created_at, excluded.created_at),
        next_due   = excluded.next_due
    WHERE tweet.state = 'ended' AND excluded.next_due IS NOT NULL
    RETURNING xmax = 0 AS new
),
ways AS (
    INSERT INTO tweet_way
    SELECT $1::text, id, $39, $40, $41, $42 FROM UNNEST($2::text[], $7::text[]) AS given (id, author)
    WHERE (NOT starts_with($1, 'media:') OR NOT EXISTS (SELECT FROM forgotten_person)
        OR id = ANY(ARRAY(SELECT there.id FROM tweet AS there
            WHERE there.namespace = $1 AND there.id = ANY($2) ORDER BY there.id FOR KEY SHARE)))
        AND (NOT EXISTS (SELECT FROM forgotten_person)
            OR CASE WHEN $38 THEN id ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/')) END IS NULL
            OR CASE WHEN $38 THEN id
                ELSE COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/'))
                END <> ALL((SELECT forgotten_among($37))::text[]))
        AND ($39 <> 'visit'
            OR (NOT EXISTS (SELECT FROM forgotten_person) OR $40 IS NULL
                OR $40 <> ALL((SELECT forgotten_among($37))::text[])))
    ON CONFLICT DO NOTHING
)
SELECT count(*) FILTER (WHERE new), count(*) FILTER (WHERE NOT new) FROM written
