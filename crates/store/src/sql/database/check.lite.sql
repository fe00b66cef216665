SELECT 1
FROM tweet, tweet_metrics, tweet_change, tweet_way, account, account_change, account_count, account_post,
    source_position, source_gap, schedule_budget, edge, crawl, visit, community_account
LIMIT 0
