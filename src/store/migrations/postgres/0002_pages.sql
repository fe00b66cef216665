-- For a rebuild of the queue: what still has a life, page by page in the order of ids. Nothing that an
-- answer changes stands in it, as next_due did in tweet_by_due, so no save has to write it.
CREATE INDEX tweet_living ON tweet (namespace, id) WHERE state IN ('live', 'unavailable');

-- For a person who looks after the dead.
CREATE INDEX tweet_dead ON tweet (namespace, id) WHERE state = 'dead';

DROP INDEX tweet_by_due;
