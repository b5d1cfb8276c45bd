"""Adapters for Kafka and Redis: names, clients and wire formats.

`kafka` has topics and errors, `log` readers and the workers' own records, `outbox` acknowledged writes.
`entries` has keys of Redis and their values, `redis` clients and the sink of a worker.
"""
