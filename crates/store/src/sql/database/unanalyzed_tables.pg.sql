SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
WHERE relkind = 'r' AND reltuples < 0 AND relnamespace = to_regnamespace(quote_ident(current_schema()))
    AND pg_relation_size(oid) > 0 AND pg_has_role(relowner, 'USAGE') AND NOT pg_is_in_recovery()
