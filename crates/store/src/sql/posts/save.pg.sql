-- Stores answers: the merge rule is explained in merge.lite.sql. Each part (CTE) sees the tables as they were before
-- the statement. `repeated` counts answers that an earlier save stored; it reads them only if some rows were not
-- written. Rows of blocked people are left out: $37 are the pseudonyms of all people of the rows, $38 is true if the id
-- of a row is the person's. The statement reads `forgotten_person` directly, so it waits for `forget` before it reads
-- rows. A medium does not name its owner, and a removed one may have been a forgotten person's. So if a person is
-- blocked, only `record_media` creates media; a removal waits for the lock.
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
    ON CONFLICT (namespace, id) DO UPDATE SET state = excluded.state,
        -- What the API says is better than what was read from an id; but a later version has its own date.
        created_at       = CASE WHEN excluded.current_id IS NULL THEN COALESCE(excluded.created_at, tweet.created_at)
                                ELSE COALESCE(tweet.created_at, excluded.created_at) END,
        -- A version that is missing is not asked for again: the first one names those that there are.
        current_id       = CASE WHEN excluded.unreadable IS NULL THEN excluded.current_id ELSE tweet.current_id END,
        -- A text that the network cut short does not replace a longer one of the same version. One that was cut here for its
        -- length does: it is the beginning of the newest.
        text             = CASE WHEN excluded.raw = '' THEN NULL
                                WHEN excluded.text IS NULL THEN tweet.text
                                WHEN excluded.truncated IS TRUE AND LENGTH(tweet.text) >= LENGTH(excluded.text)
                                     AND excluded.text NOT LIKE '%… [cut: % bytes]'
                                     AND tweet.current_id IS NOT DISTINCT FROM excluded.current_id THEN tweet.text
                                ELSE excluded.text END,
        truncated        = CASE WHEN excluded.truncated IS NULL THEN tweet.truncated
                                WHEN excluded.truncated IS TRUE AND LENGTH(tweet.text) >= LENGTH(excluded.text)
                                     AND excluded.text NOT LIKE '%… [cut: % bytes]'
                                     AND tweet.current_id IS NOT DISTINCT FROM excluded.current_id
                                THEN COALESCE(tweet.truncated, FALSE)
                                ELSE excluded.truncated END,
        author_id        = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.author_id, tweet.author_id) END,
        author_name      = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.author_name, tweet.author_name) END,
        lang             = COALESCE(excluded.lang, tweet.lang),
        reply_to         = COALESCE(excluded.reply_to, tweet.reply_to),
        reply_to_author  = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.reply_to_author, tweet.reply_to_author) END,
        retweet_of       = COALESCE(excluded.retweet_of, tweet.retweet_of),
        quote_of         = COALESCE(excluded.quote_of, tweet.quote_of),
        conversation_id  = COALESCE(excluded.conversation_id, tweet.conversation_id),
        reply_settings   = COALESCE(excluded.reply_settings, tweet.reply_settings),
        labels           = CASE WHEN excluded.raw = '' THEN NULL WHEN excluded.raw IS NULL THEN tweet.labels ELSE excluded.labels END,
        raw              = CASE WHEN excluded.raw = '' THEN NULL ELSE COALESCE(excluded.raw, tweet.raw) END,
        unreadable       = excluded.unreadable,
        retweet_count    = COALESCE(excluded.retweet_count, tweet.retweet_count),
        favorite_count   = COALESCE(excluded.favorite_count, tweet.favorite_count),
        reply_count      = COALESCE(excluded.reply_count, tweet.reply_count),
        quote_count      = COALESCE(excluded.quote_count, tweet.quote_count),
        bookmark_count   = COALESCE(excluded.bookmark_count, tweet.bookmark_count),
        impression_count = COALESCE(excluded.impression_count, tweet.impression_count),
        withheld_in      = CASE WHEN excluded.raw IS NULL OR excluded.raw = '' THEN tweet.withheld_in ELSE excluded.withheld_in END,
        -- Broken is no answer: the post is as old as it was.
        checked_at       = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.checked_at
                                ELSE excluded.checked_at END,
        -- A miss has no counts: what was learnt from those before stays.
        recent           = CASE WHEN excluded.unreadable IS NOT NULL OR excluded.misses > 0 THEN tweet.recent
                                ELSE excluded.recent END,
        -- The first answer with a count opens the history, whatever the starter had put into the row;
        -- after it, only a count that is given and differs continues it.
        changed_at       = CASE
            WHEN tweet.changed_at IS NULL THEN excluded.changed_at
            WHEN COALESCE(excluded.retweet_count, tweet.retweet_count) IS DISTINCT FROM tweet.retweet_count
              OR COALESCE(excluded.favorite_count, tweet.favorite_count) IS DISTINCT FROM tweet.favorite_count
              OR COALESCE(excluded.reply_count, tweet.reply_count) IS DISTINCT FROM tweet.reply_count
              OR COALESCE(excluded.quote_count, tweet.quote_count) IS DISTINCT FROM tweet.quote_count
              OR COALESCE(excluded.bookmark_count, tweet.bookmark_count) IS DISTINCT FROM tweet.bookmark_count
              OR COALESCE(excluded.impression_count, tweet.impression_count) IS DISTINCT FROM tweet.impression_count
            THEN excluded.checked_at
            ELSE tweet.changed_at END,
        next_due         = excluded.next_due,
        lookups          = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.lookups
                                ELSE tweet.lookups + excluded.lookups END,
        misses           = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.misses ELSE excluded.misses END,
        missing_since    = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.missing_since
                                ELSE excluded.missing_since END,
        missing_reason   = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.missing_reason
                                ELSE excluded.missing_reason END
    -- The same answer again (equal times) changes nothing, neither does an older one, nor any to the dead.
    WHERE tweet.state <> 'dead' AND (tweet.checked_at IS NULL OR tweet.checked_at < excluded.first_seen)
    RETURNING changed_at, namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count,
        bookmark_count, impression_count
),
history AS (
    INSERT INTO tweet_metrics (
        namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
        impression_count
    )
    SELECT namespace, id, checked_at, retweet_count, favorite_count, reply_count, quote_count, bookmark_count,
        impression_count
    FROM written
    WHERE changed_at = checked_at
    ON CONFLICT DO NOTHING
    RETURNING 1
),
forgotten AS (
    DELETE FROM tweet_change
    WHERE namespace = $1 AND field = 'text'
        AND id IN (SELECT written.id FROM written
            JOIN UNNEST($2::text[], $16::text[]) AS given (id, raw) ON given.id = written.id
            WHERE given.raw = '')
),
repeated AS (SELECT 1 FROM UNNEST($2::text[], $17::bigint[]) AS answer (id, given_at)
    JOIN tweet ON tweet.namespace = $1 AND tweet.id = answer.id
    WHERE tweet.checked_at = answer.given_at AND tweet.state <> 'dead')
SELECT (SELECT count(*) FROM written),
    CASE WHEN (SELECT count(*) FROM written) < cardinality($2) THEN (SELECT count(*) FROM repeated) ELSE 0 END,
    (SELECT count(*) FROM history)
