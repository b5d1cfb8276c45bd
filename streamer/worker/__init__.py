"""The worker: takes events from Kafka, folds them, and publishes summaries to Kafka and Redis."""
