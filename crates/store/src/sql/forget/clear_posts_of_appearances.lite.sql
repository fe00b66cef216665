UPDATE community_appearance SET post = NULL
WHERE post IN (SELECT value FROM json_each(?2)) AND substr(namespace, 1, length(?1)) = ?1
