"""`streamer notify`: tells services of notification what is worth telling, once each."""

from __future__ import annotations

import asyncio
import signal

import click

from streamer.cli.notify_options import URLS, Asked, check_urls, notify_options
from streamer.cli.options import with_settings
from streamer.cli.printing import say
from streamer.settings import Settings


@click.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All runs, those to come too.")
@notify_options
@with_settings
def notify_command(run_ids: tuple[str, ...], every: bool, asked: Asked | None, settings: Settings) -> None:
    """Send notices of some runs, or of all, until Ctrl-C.

    There are notices of the start, the end with the board, every change of a grade, and an agent that can no
    longer be overtaken. More notices come with --budget, --stalled-after, --rejection-rate and --target. Each
    is sent once, also over restarts.
    """
    if asked is None:
        raise click.UsageError(f"where to? Give --notify URL, or {URLS}")
    if bool(run_ids) == every:
        raise click.UsageError("name the runs to watch, or say --all")
    check_urls(asked)
    asyncio.run(_send_notices(settings, asked, frozenset(run_ids)))


async def _send_notices(settings: Settings, asked: Asked, run_ids: frozenset[str]) -> None:
    from streamer.notifications.watch import Watch

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    wanted = (lambda run_id: run_id in run_ids) if run_ids else (lambda run_id: True)
    services = len(asked.urls)
    say(f"telling {services} service{'s' * (services != 1)}; Ctrl-C ends it")
    await Watch(settings, asked.urls, asked.rules, say, wanted).run(stop)
