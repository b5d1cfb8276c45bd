"""`streamer worker`: run a worker until it is stopped."""

from __future__ import annotations

import click

from streamer.cli.options import with_settings
from streamer.settings import Settings


@click.command()
@with_settings
def worker_command(settings: Settings) -> None:
    """Run a worker until SIGTERM or Ctrl-C: it folds events and publishes summaries to Kafka and Redis.

    Start several to spread the runs over processes or machines.
    """
    from streamer.worker.app import run_worker

    raise click.exceptions.Exit(run_worker(settings))
