"""`streamer why`: which trials moved a number of a run, and by how much."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.as_of import say_if_truncated
from streamer.cli.board_lines import print_board
from streamer.cli.errors import FOUND_WRONG
from streamer.cli.known_run import known_run
from streamer.cli.options import as_of_option, json_option, position_option, wide_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import print_json, print_line
from streamer.cli.source import from_option, open_records, report_rejected
from streamer.client.moves import Question, UnknownAgent
from streamer.client.results import UnknownMetric
from streamer.client.trials import NotInLog
from streamer.client.why import metric_of, why, why_in
from streamer.records import Position
from streamer.schemas.canonical import canonical_json
from streamer.schemas.metrics import BOARD_METRICS, PRIMARY_METRIC
from streamer.settings import Settings
from streamer.views.why import MetricMoves, moves_table, totals_lines

SHOWN = 20


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--agent", help="Only this agent, or agent:model; all but baselines if not given.")
@click.option(
    "--metric",
    default=PRIMARY_METRIC,
    show_default=True,
    help=f"One of {', '.join(BOARD_METRICS)}, or metrics/NAME.",
)
@position_option("--since", "Only what moved it after this offset or time.")
@as_of_option
@from_option
@click.option("--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="Rows to list.")
@json_option
@wide_option
@with_settings
def why_command(
    run_id: str | None,
    agent: str | None,
    metric: str,
    since: Position | None,
    as_of: Position | None,
    events: Path | None,
    limit: int,
    as_json: bool,
    settings: Settings,
) -> None:
    """Say which events moved a number of RUN's agents, by how much, newest first.

    The run's log is folded again, event by event. Each row has the number before and after one event, and
    below stands what all of them add up to. The last number is the published one, or with --as-of the one
    then. With --from, RUN may be left out if the file holds one run.
    """
    rejected = 0
    try:
        question = Question(metric_of(metric), agent, since, limit)
        if events is not None:
            found, rejected = _of_file(events, run_id, question, as_of, settings)
        elif run_id is None:
            raise click.UsageError("say which RUN, or name a file of events with --from")
        else:
            found = _of_log(run_id, question, as_of, settings)
    except (UnknownAgent, UnknownMetric) as error:
        raise click.UsageError(str(error)) from None
    say_if_truncated(found.log_begins_at)
    if as_json:
        print_json(canonical_json(found.model_dump(mode="json")))
    else:
        _print(found)
    if rejected:
        raise click.exceptions.Exit(FOUND_WRONG)


def _of_log(run_id: str, question: Question, as_of: Position | None, settings: Settings) -> MetricMoves:
    try:
        return MetricMoves.of(why(settings, run_id, price_table(settings.prices_file), question, as_of))
    except NotInLog:
        if as_of is None:  # an earlier position is answered without Redis
            known_run(settings, run_id)
        raise


def _of_file(
    events: Path, run_id: str | None, question: Question, as_of: Position | None, settings: Settings
) -> tuple[MetricMoves, int]:
    """The answer, and how many lines could not be folded."""
    prices = price_table(settings.prices_file)
    with open_records(events) as records:
        found, rejected = why_in(records, run_id, prices, question, as_of)
    for one in rejected:
        report_rejected(one)
    return MetricMoves.of(found), len(rejected)


def _print(found: MetricMoves) -> None:
    print_board(moves_table(found))
    left = sum(total.moves for total in found.totals) - len(found.moves)
    if left:
        print_line(f"and {left:,} more (--limit)")
        print_line()
    for line in totals_lines(found):
        print_line(line)
    if not found.totals:
        print_line("No agent has results yet.")
