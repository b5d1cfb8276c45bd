"""`streamer rebuild`: the state built again from the event log."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from streamer.cli.errors import FOUND_WRONG, UNVERIFIABLE, explain
from streamer.cli.options import json_option, wait_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import print_json, print_line, say
from streamer.cli.verify import CANNOT, exit_code, print_verdict
from streamer.ops.rebuild import CannotSwitch, Switch
from streamer.ops.verify import Verdict, Verification
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.text import counted


@click.command()
@click.option(
    "--switch", is_flag=True, help="Replace the state without asking; every worker must be stopped."
)
@wait_option(15.0, "How long to wait for results in flight, and for workers that are leaving.")
@json_option
@with_settings
def rebuild_command(switch: bool, wait: float, as_json: bool, settings: Settings) -> None:
    """Fold the whole event log again, compare with the topics and Redis, and replace what stands there.

    To replace it, stop all workers first. The next worker to start folds the log from its beginning and
    publishes under the next epoch; readers keep the old summaries until then. Runs of which the log holds
    nothing are removed.

    Exit codes: 0 equal or replaced, 1 something differs or workers are running, 3 the log is not complete or
    cannot be read.
    """
    verification = Verification(
        settings, prices=price_table(settings.prices_file), wait_seconds=wait, topics=True
    )
    try:
        verdicts = verification.verify(None)
    except CANNOT as error:
        say(f"streamer: cannot be rebuilt: {explain(error, settings)}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error
    _print_rebuilt(verdicts, as_json)
    if verification.truncated:
        raise click.exceptions.Exit(UNVERIFIABLE)
    if not switch and not _wanted(verdicts):
        raise click.exceptions.Exit(exit_code(verdicts))
    try:
        done = Switch(settings, wait_seconds=wait).switch(
            verification.places, [verdict.run_id for verdict in verdicts if not verdict.in_log]
        )
    except CannotSwitch as error:
        say(f"streamer: {error}")
        raise click.exceptions.Exit(FOUND_WRONG) from error
    runs = counted(done.runs, "run")
    say(
        f"epoch {done.epoch} begins: {done.pages:,} state pages, {done.unknown:,} records that the log does "
        f"not know and {runs} removed. Start the workers: they fold the log again and publish"
    )


def _print_rebuilt(verdicts: list[Verdict], as_json: bool) -> None:
    for verdict in verdicts:
        if as_json:
            print_json(canonical_json(asdict(verdict)))
        elif verdict.outcome != "equal":
            print_verdict(verdict)
    equal = sum(verdict.outcome == "equal" for verdict in verdicts)
    if not as_json:
        print_line(f"{equal:,} of {len(verdicts):,} runs are as the log says")


def _wanted(verdicts: list[Verdict]) -> bool:
    """Ask, where something differs and a person is there to answer."""
    differs = any(verdict.outcome == "differs" or not verdict.in_log for verdict in verdicts)
    return differs and sys.stdin.isatty() and click.confirm("Replace the state?", err=True)
