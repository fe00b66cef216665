-- Pages are saved before or after this lock, so no unfinished page names a removed account.
LOCK TABLE list_account IN SHARE ROW EXCLUSIVE MODE
