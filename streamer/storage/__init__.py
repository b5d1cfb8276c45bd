"""The adapters of Kafka and Redis: all names, clients and wire formats of both.

- `kafka`: topics and errors. `log`: readers, and the workers' own records. `outbox`: acknowledged writes.
- `entries`: keys of Redis and their values. `redis`: clients, and the sink of a worker.
"""
