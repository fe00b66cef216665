SELECT bytes FROM media_room
