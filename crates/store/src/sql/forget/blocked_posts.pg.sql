SELECT id FROM UNNEST($2::text[], $3::text[]) AS given (id, author)
WHERE EXISTS (SELECT FROM forgotten_person)
    AND COALESCE(author, substring(id FROM '^(?:at://)?(did:[^/]+)/')) = ANY((SELECT forgotten_among($1))::text[])
