-- With one row of parameters; the program repeats it for more rows, and adds the effect on existing rows.
INSERT INTO tweet (
    key, namespace, id, state, created_at, current_id, text, author_id, author_name, retweet_count, favorite_count,
    reply_count, quote_count, bookmark_count, impression_count, withheld_in, raw, first_seen, checked_at, changed_at,
    next_due, lookups, misses, missing_since, reason, lang, reply_to, retweet_of, quote_of, conversation_id,
    reply_settings, truncated, unreadable, recent, missing_reason, reply_to_author, labels
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
