"""`streamer watch`: live boards in a terminal."""

from __future__ import annotations

import asyncio
import sys

import click

from streamer.cli.options import budget_option, with_settings
from streamer.settings import Settings


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@budget_option
@with_settings
def watch_command(run_id: str | None, budget: float | None, settings: Settings) -> None:
    """Show live boards in this terminal: all runs, or RUN, which need not exist yet; `?` tells the keys.

    State comes from Redis as it changes; newest trials and rejections from the broker. It only reads.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise click.UsageError(
            "watch needs a terminal, and its input or output is a pipe or a file. For those there are "
            "`streamer subscribe run`, which follows summaries line by line, and `streamer query run RUN`"
        )
    from streamer.redis.connect import check_protocol
    from streamer.watch.app import run_watch

    asyncio.run(check_protocol(settings.redis, settings.redis_options()))
    run_watch(settings, run_id, budget_usd=budget)
