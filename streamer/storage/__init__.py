"""The adapters of Kafka and Redis: all names, clients and wire formats of both.

- `kafka`: clients that write and administer, topic names, partitions. `log`: readers of partitions, and the
  records of workers (quarantine, repair, epoch). `outbox`: publishing events with acknowledgements.
- `entries`: keys of Redis and what is written under each. `redis`: clients, and the sink of a worker.
"""
