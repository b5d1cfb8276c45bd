"""The worker: takes events from Kafka, folds them, and publishes summaries to Kafka and Redis."""

from streamer.worker.app import run_worker

__all__ = ["run_worker"]
