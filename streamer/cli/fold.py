"""`streamer fold`: events in, summaries out, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson

from streamer.aggregate.by_label import UnknownLabel, by_label
from streamer.aggregate.by_subtest import by_subtest
from streamer.cli.board_lines import print_board
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.labels import SUBTEST, part
from streamer.cli.options import as_of_option, json_option, wide_option, with_settings
from streamer.cli.price_tables import price_table, prices_option
from streamer.cli.printing import print_json, print_line, say, visible
from streamer.cli.source import file_argument, open_records, report_rejected
from streamer.cli.tables import print_run
from streamer.fold import Folding, fold_records
from streamer.records import Failure, Position
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.text import counted
from streamer.views.tables import labels_table


@click.command()
@file_argument
@json_option
@wide_option
@click.option(
    "--by",
    metavar="[subtest|label:KEY]",
    callback=part,
    help="Also break down: the tiers by subtest, or each run by a label of its trials.",
)
@prices_option
@as_of_option
@with_settings
def fold_command(
    file: Path, as_json: bool, by: str | None, prices: Path | None, as_of: Position | None, settings: Settings
) -> None:
    """Fold the events in FILE (or on stdin) into summaries; no broker is needed.

    FILE holds one JSON object per line, plain or gzip. Lines that cannot be folded, and runs that
    fail, are reported on stderr with the reason; the exit code is then 1. With --json the summaries
    are printed as they would be published, one per line.
    """
    table = price_table(prices or settings.prices_file)
    with open_records(file) as records:
        folding = fold_records(records, prices=table, on_rejected=report_rejected, as_of=as_of, exits=True)
    if as_json:
        _print_json(folding, by)
    else:
        # lines of a file have no times, so nothing says how long a run was silent as of one of them
        _print_tables(folding, by, datetime.now(UTC) if as_of is None else None)
    for failure in folding.failed:
        say(f"streamer: run {visible(failure.run_id)} cannot be folded{_line_of(failure)}: {failure.reason}")
    say(_counts(folding))
    if folding.rejected or folding.failed:
        raise click.exceptions.Exit(FOUND_WRONG)


def _print_json(folding: Folding, by: str | None) -> None:
    for change in folding.summaries():
        print_json(change.value or b"null")
    for run_id in folding.runs():
        for body in _broken_down(folding, run_id, by):
            print_json(canonical_json(body))


def _print_tables(folding: Folding, by: str | None, now: datetime | None) -> None:
    for run_id in folding.runs():
        summaries = [change.summary or {} for change in folding.summaries_of(run_id)]
        if not summaries:
            continue  # it failed, which is said below
        parts = _broken_down(folding, run_id, by)
        subtests = parts if by == SUBTEST else []
        print_run(summaries, now, subtests, _fallbacks(folding, run_id, summaries))
        if by != SUBTEST:
            print_board(labels_table(parts))
    if not folding.runs():
        print_line("No results.")


def _fallbacks(folding: Folding, run_id: str, summaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The scored trials that fell back to baseline, by task, attempt and agent:model."""
    if not any((summary.get("formulacode") or {}).get("fallbacks") for summary in summaries):
        return []
    scored = folding.pipeline.run(run_id).take_changes(news=False).scored
    trials = [orjson.loads(change.value) for change in scored if change.value]
    fell_back = [trial for trial in trials if (trial["formulacode"] or {}).get("fallback_to_baseline")]
    return sorted(fell_back, key=lambda t: (t["shard"], t["task_id"], t["attempt"], t["agent_model"]))


def _broken_down(folding: Folding, run_id: str, by: str | None) -> list[dict[str, Any]]:
    if by is None:
        return []
    state = folding.pipeline.run(run_id).state
    if by == SUBTEST:
        return by_subtest(state)
    try:
        return by_label(state, by.partition(":")[2])
    except UnknownLabel as error:
        say(f"streamer: {error}")
        return []


def _line_of(failure: Failure) -> str:
    return "" if failure.record is None else f" (line {failure.record.offset + 1})"


def _counts(folding: Folding) -> str:
    counts = folding.counts
    return (
        f"{counted(counts.records, 'event')}: {counts.counted} counted, "
        f"{counted(counts.duplicates, 'duplicate')}, "
        f"{counts.superseded} superseded on arrival, {counts.ignored} ignored, {folding.rejected} rejected, "
        f"{counted(counts.unknown_fields, 'unknown field')}"
        + (f", {counted(counts.missing_times, 'time')} outside 2000 to 2200" if counts.missing_times else "")
    )
