SELECT account FROM community_account
WHERE namespace = $1 AND follows = $3
    AND account = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)))
