UPDATE community_account SET follows = $3
WHERE namespace = $1 AND follows <> $3 AND ($3 <> 2 OR follows = 1)
    AND account = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)))
