-- Waits for statements that read the table, and blocks later ones until they can see the hash.
LOCK TABLE forgotten_person IN ACCESS EXCLUSIVE MODE
