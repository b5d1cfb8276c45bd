"""The worker: Faust app, batch transport, processor. The only part that knows Faust."""

from streamer.worker.runner import run_worker

__all__ = ["run_worker"]
