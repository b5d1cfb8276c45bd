"""The worker: takes events from Kafka, folds them, and publishes summaries to Kafka and Redis.

- `agents` wires everything to one Faust app. `transport` is Faust's side of Kafka: app, consumer, batches.
- `batches` takes a batch through its four steps; `publisher` publishes summaries, writes checkpoints and
  quarantine, and closes idle runs. `partition` is the memory of one partition.
- `tables` keeps state pages and summaries; `producer` sends to Kafka. `recovery` rebuilds after a rebalance.
- `process` runs it all: topics, housekeeping, heartbeat, watchdog, logging. `metrics` is for Prometheus.
"""
