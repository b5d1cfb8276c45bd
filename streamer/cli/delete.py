"""`streamer delete`: forget a run."""

from __future__ import annotations

import sys
import time

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import with_settings
from streamer.cli.printing import say, visible
from streamer.client.reader import StateReader
from streamer.client.results import UnknownRun
from streamer.ops.repair import quarantined
from streamer.publish.publisher import ThreadedPublisher, outgoing
from streamer.settings import Settings
from streamer.text import counted

WAIT_SECONDS = 15.0
POLL_SECONDS = 0.1


@click.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def delete_command(run: str, yes: bool, settings: Settings) -> None:
    """Delete RUN: its summaries, scores and boards vanish from the topics and from Redis.

    Its events stay in the log. Every result whose revision is not later than this moment is ignored from now
    on, also if it is published again. Later results count.
    """
    with StateReader(settings) as reader:
        trials = _trials(reader, run)
        if not yes:
            _ask(run, trials)
        event = {"type": "run_deleted", "run_id": run, "revision": time.time_ns()}
        with ThreadedPublisher(settings) as publisher:
            publisher.send(outgoing(event))
        if not _gone(reader, run):
            say(
                f"streamer: {run}: the deletion is published, but after {WAIT_SECONDS:.0f} s the run is "
                "still in Redis. A worker will see to it: `streamer status` shows whether one is running"
            )
            raise click.exceptions.Exit(FOUND_WRONG)
    say(f"{run}: deleted, and gone from Redis")


def _trials(reader: StateReader, run: str) -> int:
    """How many trials a run has; 0 for one in quarantine that was never published."""
    try:
        return reader.run(run).trials
    except UnknownRun:
        if run not in quarantined(reader):
            raise
        return 0


def _ask(run: str, trials: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"this deletes run {run!r} with {counted(trials, 'trial')}: confirm with --yes"
        )
    click.confirm(f"Delete run {visible(run)} with {counted(trials, 'trial')}?", abort=True, err=True)


def _gone(reader: StateReader, run: str) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            reader.run(run)
        except UnknownRun:
            if run not in quarantined(reader):
                return True
        time.sleep(POLL_SECONDS)
    return False
