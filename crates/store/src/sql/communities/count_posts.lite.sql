UPDATE community_account SET posts = community_account.posts + of.posts
FROM (SELECT given.value ->> 0 AS account, count(*) AS posts FROM json_each($2) AS given GROUP BY 1) AS of
WHERE community_account.namespace = $1 AND community_account.account = of.account
RETURNING community_account.account, community_account.state,
    community_account.posts - community_account.judged_posts AS new_posts,
    community_account.judged_at IS NOT NULL AS is_judged
