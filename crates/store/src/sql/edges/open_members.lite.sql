SELECT json_group_array(member)
FROM (SELECT member FROM list_edge WHERE list = ?1 AND member > ?2 AND closed_by IS NULL ORDER BY member LIMIT ?3)
