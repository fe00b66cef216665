UPDATE community_account SET state = 'candidate', admitted_at = $3, decided_at = $3
WHERE namespace = $1 AND COALESCE(state, '') = 'seen'
    AND account = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)))
