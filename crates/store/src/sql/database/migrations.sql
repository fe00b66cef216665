SELECT version, checksum FROM store_migrations WHERE success
