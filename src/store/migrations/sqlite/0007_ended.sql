-- For what is removed some time after its life has ended. It is written once in a life.
CREATE INDEX tweet_ended ON tweet (namespace, id) WHERE state = 'ended';
