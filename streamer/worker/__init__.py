"""The worker: reads events from Kafka, folds them, and publishes summaries to Kafka and Redis.

- `process` connects everything in one Faust app, and runs it. `agents` has the agent that folds.
- `publisher` publishes, writes checkpoints and quarantine, and closes idle runs.
- `tables` keeps state pages and summaries. `transport` is Faust's side of Kafka: app, consumer, producer.
- `recovery` rebuilds after a rebalance. `partition` is the memory of one partition.
- `metrics` is for Prometheus.
"""
