SELECT id AS account, state, display_name AS name, location, description, protected, posts FROM account
WHERE namespace = $1 AND id IN (SELECT given.value ->> 0 FROM json_each($2) AS given)
