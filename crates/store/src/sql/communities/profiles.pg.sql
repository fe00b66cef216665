SELECT id AS account, state, display_name AS name, location, description, protected, posts FROM account
WHERE namespace = $1
    AND id = ANY(ARRAY(SELECT given.value ->> 0 FROM json_array_elements(CAST($2 AS json)) AS given (value)))
