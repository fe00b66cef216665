SELECT CASE WHEN ?3 IS NULL THEN NOT EXISTS (SELECT 1 FROM visit WHERE namespace = ?1 AND account = ?2)
    ELSE EXISTS (SELECT 1 FROM visit WHERE namespace = ?1 AND account = ?2 AND left_at IS NULL AND followed_at = ?3)
    END
