SELECT current_setting('server_encoding'), current_database()::text
