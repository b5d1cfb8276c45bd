-- Reads the heartbeats of all workers, and the time of Redis, which says how old they are.
--
-- KEYS[1]  streamer:workers
-- Reply: {the fields and values of the hash, seconds and microseconds of Redis's time}; the time is empty where
--          the account may not ask for it

local now = redis.pcall('TIME')
return { redis.call('HGETALL', KEYS[1]), now.err and {} or now }
