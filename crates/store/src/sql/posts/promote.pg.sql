UPDATE tweet SET next_due = given.due FROM UNNEST($2::text[], $3::bigint[]) AS given (id, due)
WHERE tweet.namespace = $1 AND tweet.id = given.id AND tweet.state IN ('live', 'unavailable')
    AND (tweet.next_due IS NULL OR tweet.next_due > given.due)
