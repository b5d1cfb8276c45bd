"""`streamer runs set`: name and label a run."""

from __future__ import annotations

import time

import click

from streamer.cli.options import with_settings
from streamer.cli.printing import say
from streamer.client.publish import ThreadedPublisher, outgoing
from streamer.settings import Settings


@click.group()
def command() -> None:
    """Say more about runs."""


@command.command("set")
@click.argument("run")
@click.option("--name", help="Name for people.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@with_settings
def set_(run: str, name: str | None, labels: tuple[str, ...], settings: Settings) -> None:
    """Give RUN a name and labels. Those given before stay, unless they are given anew."""
    if name is None and not labels:
        raise click.UsageError("nothing to set: give --name or --label KEY=VALUE")
    plan = {"display_name": name, "labels": dict(map(_label, labels)) or None}
    said = {field: value for field, value in plan.items() if value is not None}
    event = {"type": "run_started", "run_id": run, "revision": time.time_ns(), **said}
    with ThreadedPublisher(settings) as publisher:
        publisher.send(outgoing(event))
    say(f"{run}: published; the summaries follow as soon as a worker has seen it")


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--label {text!r} is not of the form KEY=VALUE")
    return key, value
