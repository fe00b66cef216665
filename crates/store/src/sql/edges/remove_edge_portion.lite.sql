DELETE FROM list_edge
WHERE (list, member, first_page) IN (SELECT of.list, of.member, of.first_page FROM tweet
    CROSS JOIN list_edge AS of ON of.list = tweet.key
    WHERE tweet.namespace IN (?1, ?2) AND tweet.id = ?3 LIMIT ?4)
