-- Saves rows of `tweet` as posts/save.pg.sql does, with the accounts whose rows it wrote (accounts/save.lite.sql
-- explains the rule). $39: the accounts' values, $40: the name prefix of the communities whose evidence quotes them. A
-- repeated answer changes nothing, since the earlier save was one statement, too. But another answer of the same time
-- may lack the account, which is then inserted.
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
        created_at       = CASE WHEN excluded.current_id IS NULL THEN COALESCE(excluded.created_at, tweet.created_at)
                                ELSE COALESCE(tweet.created_at, excluded.created_at) END,
        current_id       = CASE WHEN excluded.unreadable IS NULL THEN excluded.current_id ELSE tweet.current_id END,
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
        checked_at       = CASE WHEN excluded.unreadable IS NOT NULL THEN tweet.checked_at
                                ELSE excluded.checked_at END,
        recent           = CASE WHEN excluded.unreadable IS NOT NULL OR excluded.misses > 0 THEN tweet.recent
                                ELSE excluded.recent END,
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
    WHERE tweet.checked_at = answer.given_at AND tweet.state <> 'dead'),
accounts AS (
    INSERT INTO account (
        namespace, id, checked_at, state, handle, display_name, description, location, url, picture, banner,
        protected, verified, withheld_in, moved_to, followers, following, posts, listed, likes, last_post_at,
        active_at, forgotten_at
    )
    SELECT $1, given.id, at, state, handle, display_name, description, location, url, picture, banner, protected,
        verified, withheld_in, moved_to, followers, following, posts, listed, likes, last_post_at, last_post_at,
        forgotten_at
    FROM json_to_recordset($39::json) AS given (
        id text, at bigint, state text, handle text, display_name text, description text, location text, url text,
        picture text, banner text, protected boolean, verified boolean, withheld_in text, moved_to text,
        followers bigint, following bigint, posts bigint, listed bigint, likes bigint, last_post_at bigint,
        forgotten_at bigint
    )
    WHERE given.id COLLATE "C" IN (SELECT id FROM written)
        OR given.at = (SELECT of.checked_at FROM tweet AS of
            WHERE of.namespace = $1 AND of.id = given.id COLLATE "C" AND of.state <> 'dead')
    ORDER BY given.id COLLATE "C"
    ON CONFLICT (namespace, id) DO UPDATE SET
        -- The 30 days (2,592,000,000 ms) of a missing account start when the network first states its absence. So an account
        -- that was suspended or missing for another reason is first deactivated, however old its first miss is. Bluesky states
        -- deactivations explicitly.
        state        = CASE
            WHEN excluded.state = 'deleted' AND $1 <> 'profiles:bluesky'
                AND (account.state IN ('suspended', 'protected', 'unknown')
                    OR EXISTS (SELECT 1 FROM account_change AS changed
                    WHERE changed.namespace = account.namespace AND changed.id = account.id
                        AND changed.field = 'state' AND changed.new_value = 'deactivated'
                        AND changed.old_value IN ('suspended', 'protected', 'unknown')
                        AND changed.at > excluded.checked_at - 2592000000))
            THEN 'deactivated'
            ELSE COALESCE(excluded.state, account.state) END,
        checked_at   = excluded.checked_at,
        handle       = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.handle, account.handle) END,
        display_name = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.display_name, account.display_name) END,
        description  = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.description, account.description) END,
        location     = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.location, account.location) END,
        url          = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.url, account.url) END,
        picture      = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.picture, account.picture) END,
        banner       = CASE WHEN excluded.forgotten_at IS NULL THEN COALESCE(excluded.banner, account.banner) END,
        protected    = COALESCE(excluded.protected, account.protected),
        verified     = COALESCE(excluded.verified, account.verified),
        withheld_in  = COALESCE(excluded.withheld_in, account.withheld_in),
        moved_to     = COALESCE(excluded.moved_to, account.moved_to),
        followers    = COALESCE(excluded.followers, account.followers),
        following    = COALESCE(excluded.following, account.following),
        posts        = COALESCE(excluded.posts, account.posts),
        listed       = COALESCE(excluded.listed, account.listed),
        likes        = COALESCE(excluded.likes, account.likes),
        last_post_at = COALESCE(excluded.last_post_at, account.last_post_at),
        -- A network that does not tell the last post tells the number of posts.
        active_at    = CASE WHEN excluded.active_at IS NULL AND excluded.posts > account.posts THEN excluded.checked_at
                            WHEN excluded.active_at > account.active_at OR account.active_at IS NULL THEN excluded.active_at
                            ELSE account.active_at END,
        forgotten_at = CASE WHEN excluded.forgotten_at IS NOT NULL THEN COALESCE(account.forgotten_at, excluded.forgotten_at)
                            WHEN excluded.handle IS NOT NULL THEN NULL
                            ELSE account.forgotten_at END
    -- The same answer again (equal times) changes nothing, and neither does an older one.
    WHERE account.checked_at < excluded.checked_at
),
former AS (
    DELETE FROM account_change
    WHERE namespace = $1 AND field <> 'state'
        AND id IN (SELECT written.id FROM written
            JOIN UNNEST($2::text[], $16::text[]) AS given (id, raw) ON given.id = written.id
            WHERE given.raw = '')
),
evidence AS (
    UPDATE community_account SET evidence = NULL
    WHERE namespace = ANY(ARRAY(
        WITH RECURSIVE known (namespace) AS (SELECT MIN(namespace) FROM community_account
            WHERE namespace >= $40
            UNION ALL
            SELECT (SELECT MIN(namespace) FROM community_account WHERE namespace > known.namespace) FROM known
            WHERE substr(known.namespace, 1, length($40)) = $40)
        SELECT namespace FROM known WHERE substr(namespace, 1, length($40)) = $40
    ))
        AND account = ANY(ARRAY(SELECT written.id FROM written
            JOIN UNNEST($2::text[], $16::text[]) AS given (id, raw) ON given.id = written.id
            WHERE given.raw = ''))
)
SELECT (SELECT count(*) FROM written),
    CASE WHEN (SELECT count(*) FROM written) < cardinality($2) THEN (SELECT count(*) FROM repeated) ELSE 0 END,
    (SELECT count(*) FROM history)
