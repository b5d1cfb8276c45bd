"""The worker: reads events from Kafka, folds them, and publishes summaries to Kafka and Redis.

- `agents` connects everything in one Faust app. `transport` is Faust's side of Kafka: app, consumer, batches.
- `batches` folds and queues. `publisher` publishes, writes checkpoints and quarantine, and closes idle runs.
- `tables` keeps state pages and summaries; `producer` sends to Kafka. `recovery` rebuilds after a rebalance.
- `process` runs it all. `partition` is the memory of one partition, and `metrics` is for Prometheus.
"""
