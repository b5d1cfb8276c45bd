"""`streamer report`: a run as a file to keep, to attach or to compute with."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.aggregate.by_label import UnknownLabel
from streamer.cli.as_of import say_if_truncated
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.labels import label_option, labels_of
from streamer.cli.options import as_of_option, with_settings
from streamer.cli.out import write
from streamer.cli.price_tables import price_table
from streamer.cli.printing import say
from streamer.cli.source import from_option, open_records, report_rejected
from streamer.records import Position
from streamer.report.data import RunData, from_events, from_log, from_stack
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
@from_option
@label_option
@click.option(
    "--trials/--no-trials", default=True, show_default=True, help="List single trials (html, json)."
)
@as_of_option
@with_settings
def report_command(
    run_id: str | None,
    chosen: str | None,
    out: Path | None,
    events: Path | None,
    label: str | None,
    trials: bool,
    as_of: Position | None,
    settings: Settings,
) -> None:
    """Write a report of RUN as Markdown, HTML, CSV, Parquet or JSON.

    Summaries come from Redis; single trials, which csv and parquet are made of and html and json list,
    from the topic `scored-trials`. With --from, RUN may be left out if the file holds one run. With --as-of
    the command folds the events of FILE, or the events of RUN in the log.
    """
    form = chosen or (format_of(out) if out else None) or "md"
    if chosen is None and out is not None and out.suffix and format_of(out) is None:
        raise click.UsageError(
            f"{out.suffix} is no format of a report: end --out in {', '.join(FORMATS)}, or give --format"
        )
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is binary: give a file with --out")
    if not trials and form in ("csv", "parquet"):
        raise click.UsageError(f"{form} is made of trials: leave --no-trials out")
    if events is None and run_id is None:
        raise click.UsageError("say which RUN, or name a file of events with --from")
    data, rejected = _data(
        run_id, events, as_of, label, settings, trials=trials and form not in WITHOUT_TRIALS
    )
    _say_if_moving(data)
    write(FORMATS[form](data), out)
    if rejected:
        raise click.exceptions.Exit(FOUND_WRONG)


def _data(
    run_id: str | None,
    events: Path | None,
    as_of: Position | None,
    label: str | None,
    settings: Settings,
    *,
    trials: bool,
) -> tuple[RunData, int]:
    """What is reported, and how many lines of the file could not be folded."""
    now = datetime.now(UTC)
    try:
        if events is not None:
            # lines of a file have no times: the state as of one of them is not that of now
            return _folded(events, run_id, now if as_of is None else None, settings, label, as_of)
        assert run_id is not None
        if as_of is not None:
            data, begins_at = from_log(settings, run_id, now, price_table(settings.prices_file), label, as_of)
            say_if_truncated(begins_at)
            return data if trials else replace(data, trials=None), 0
    except UnknownLabel as error:
        raise click.UsageError(str(error)) from None
    data = from_stack(settings, run_id, now, trials=trials)
    return data if label is None else replace(data, by_label=labels_of(settings, run_id, label)), 0


def _folded(
    events: Path,
    run_id: str | None,
    now: datetime | None,
    settings: Settings,
    label: str | None,
    as_of: Position | None,
) -> tuple[RunData, int]:
    prices = price_table(settings.prices_file)
    with open_records(events) as records:
        data, rejected = from_events(records, run_id, now, prices, label, as_of)
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
