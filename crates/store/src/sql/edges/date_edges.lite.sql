-- An upsert, as in close_edges.lite.sql.
INSERT INTO list_edge (list, member, first_page, followed_at)
SELECT of.list, of.member, of.first_page, value ->> 1 FROM json_each(?2)
CROSS JOIN list_edge AS of ON of.list = ?1 AND of.member = value ->> 0
CROSS JOIN list_page AS first ON first.key = of.first_page
CROSS JOIN list_crawl AS since ON since.key = first.crawl
WHERE of.closed_by IS NULL AND of.followed_at IS NULL AND first.at >= value ->> 1
    AND (since.appeared_after IS NULL OR since.appeared_after < value ->> 1)
ON CONFLICT (list, member, first_page) DO UPDATE SET followed_at = excluded.followed_at
