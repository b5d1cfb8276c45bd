"""`streamer report`: a run as a file to keep, to attach or to compute with."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.aggregate.by_label import UnknownLabel
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.labels import label_option, labels_of
from streamer.cli.options import with_settings
from streamer.cli.out import write
from streamer.cli.price_tables import price_table
from streamer.cli.printing import say
from streamer.cli.source import open_lines, report_rejected
from streamer.records import records_of_lines
from streamer.report.data import RunData, from_events, from_stack
from streamer.report.formats import FORMATS, WITHOUT_TRIALS, format_of
from streamer.settings import Settings


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--format", "chosen", type=click.Choice(list(FORMATS)), help="As --out ends, or md, if not given."
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; stdout if not given."
)
@click.option(
    "--from",
    "events",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Fold the events of FILE, in place of asking Redis and the broker; - is stdin.",
)
@label_option
@click.option(
    "--trials/--no-trials", default=True, show_default=True, help="List single trials (html, json)."
)
@with_settings
def command(
    run_id: str | None,
    chosen: str | None,
    out: Path | None,
    events: Path | None,
    label: str | None,
    trials: bool,
    settings: Settings,
) -> None:
    """Write a report of RUN as Markdown, HTML, CSV, Parquet or JSON.

    Summaries come from Redis; single trials, which csv and parquet are made of and html and json list,
    from the topic `scored-trials`. With --from, RUN may be left out if the file holds one run.
    """
    form = chosen or (format_of(out) if out else None) or "md"
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is binary: give a file with --out")
    if not trials and form in ("csv", "parquet"):
        raise click.UsageError(f"{form} is made of trials: leave --no-trials out")
    if events is None and run_id is None:
        raise click.UsageError("say which RUN, or name a file of events with --from")
    rejected = 0
    if events is not None:
        data, rejected = _folded(events, run_id, settings, label)
    else:
        assert run_id is not None
        data = from_stack(settings, run_id, datetime.now(UTC), trials=trials and form not in WITHOUT_TRIALS)
        if label is not None:
            data = replace(data, by_label=labels_of(settings, run_id, label))
    _say_if_moving(data)
    write(FORMATS[form](data), out)
    if rejected:
        raise click.exceptions.Exit(FOUND_WRONG)


def _folded(events: Path, run_id: str | None, settings: Settings, label: str | None) -> tuple[RunData, int]:
    prices = price_table(settings.prices_file)
    with open_lines(events) as lines:
        records = records_of_lines(lines, str(events))
        try:
            data, rejected = from_events(records, run_id, datetime.now(UTC), prices, label)
        except UnknownLabel as error:
            raise click.UsageError(str(error)) from None
    for one in rejected:
        report_rejected(one)
    return data, len(rejected)


def _say_if_moving(data: RunData) -> None:
    """Redis and the log are read one after the other: of a run that goes on they may differ by a moment."""
    counted = data.run["progress"]["done"]
    if data.trials is not None and len(data.trials) != counted:
        say(
            f"the summaries count {counted:,} trials and the log lists {len(data.trials):,}: results were "
            "coming in while this was read. Ask again once the run has finished"
        )
