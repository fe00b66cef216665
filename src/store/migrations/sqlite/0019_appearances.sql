-- The appearances of a post, to find them when it is removed or blanked.

CREATE INDEX community_appearance_by_post ON community_appearance (post) WHERE post IS NOT NULL;
