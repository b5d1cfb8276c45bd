"""`streamer runs`: name and label a run, fold one again."""

from __future__ import annotations

import time

import click

from streamer.cli.options import label_of, wait_option, with_settings
from streamer.cli.printing import say
from streamer.ops.repair import repair
from streamer.publish.publisher import ThreadedPublisher, outgoing
from streamer.settings import Settings


@click.group()
def runs_command() -> None:
    """Name and label runs; fold one again that is in quarantine."""


@runs_command.command("set")
@click.argument("run")
@click.option("--name", help="Name for people.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@with_settings
def set_(run: str, name: str | None, labels: tuple[str, ...], settings: Settings) -> None:
    """Give RUN a name and labels. Earlier ones stay, unless they are given again."""
    if name is None and not labels:
        raise click.UsageError("nothing to set: give --name or --label KEY=VALUE")
    plan = {"display_name": name, "labels": dict(map(label_of, labels)) or None}
    said = {field: value for field, value in plan.items() if value is not None}
    event = {"type": "run_started", "run_id": run, "revision": time.time_ns(), **said}
    with ThreadedPublisher(settings) as publisher:
        publisher.send(outgoing(event))
    say(f"{run}: published; the summaries follow as soon as a worker has seen it")


@runs_command.command("repair")
@click.argument("run")
@wait_option(60.0, "How long to wait for the worker.")
@with_settings
def repair_(run: str, wait: float, settings: Settings) -> None:
    """Fold RUN again from the log, and put what comes out in place of what there is.

    For a run in quarantine: something went wrong while it was folded or published, so its events stay
    in the log and are not counted. After an upgrade they may be. `streamer status` names such runs.
    If it fails again, the exit code is 1 and the last good summaries stand.
    """
    repair(settings, run, wait_seconds=wait)
    say(f"{run}: folded again from the log")
