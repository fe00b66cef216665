DELETE FROM account_post_row
WHERE (tweet, post) IN (SELECT author.key, post.id FROM tweet AS post
    CROSS JOIN json_each(?3) AS of
    CROSS JOIN tweet AS author
    WHERE post.namespace = ?1 AND post.id IN (SELECT value FROM json_each(?2)) AND author.namespace = of.value
        AND author.id = post.author_id)
