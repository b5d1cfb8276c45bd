"""`streamer query leaderboard`: agents of each benchmark, their runs pooled; or every run for itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamer.cli.board_lines import print_board
from streamer.cli.options import json_option, label_of, position_option, wide_option, with_settings
from streamer.cli.out import write
from streamer.cli.printing import print_json, say
from streamer.client.queries import MOST_BOARD_RUNS
from streamer.client.reader import StateReader
from streamer.client.results import UnknownMetric
from streamer.records import Position
from streamer.schemas.canonical import canonical_json, json_number
from streamer.schemas.metrics import BOARD_METRICS, PRIMARY_METRIC, can_have_board
from streamer.settings import Settings
from streamer.text import shown
from streamer.views.leaderboard import BenchmarkBoard, boards_of
from streamer.views.leaderboard_document import leaderboard_document, leaderboard_tables, with_words
from streamer.views.tables import leaders_table
from streamer.web.one_file import one_file

if TYPE_CHECKING:
    from streamer.client.past_runs import PastRuns


@click.command()
@click.option(
    "--metric",
    metavar="METRIC",
    help=f"One of {', '.join(BOARD_METRICS)}, or metrics/NAME. Default: the run's primary metric.",
)
@click.option("--run", "run_id", metavar="RUN", help="Only this run; across all runs otherwise.")
@click.option("--benchmark", help="Only runs of this benchmark.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs with this label.")
@click.option("--all-benchmarks", "together", is_flag=True, help="One board of all benchmarks, mixed.")
@click.option("--by-run", is_flag=True, help="A row for each run, nothing pooled and no intervals.")
@click.option("--limit", type=click.IntRange(min=1), help="So many rows of each board at most.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the boards as one HTML file."
)
@position_option(
    "--as-of",
    "Count only events up to this time, or with --run up to this offset; folds the log again.",
)
@json_option
@wide_option
@with_settings
def leaderboard(
    metric: str | None,
    run_id: str | None,
    benchmark: str | None,
    labels: tuple[str, ...],
    together: bool,
    by_run: bool,
    limit: int | None,
    html: Path | None,
    as_of: Position | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Agents by a metric, best first: a board for each benchmark, its finished runs pooled.

    Pass rates have an interval, and each agent the places that it may truly have. Unfinished and tiny runs
    stand below, marked. Baselines are left out.
    """
    wanted = dict(map(label_of, labels))
    if by_run and (html or together):
        raise click.UsageError("--by-run pools nothing: leave --html and --all-benchmarks out")
    if metric is not None and not can_have_board(metric):
        raise click.UsageError(str(UnknownMetric(metric)))
    with _leaderboard_of(settings, as_of, run_id) as (reader, now):
        metric = metric or (reader.run(run_id).primary_metric if run_id else PRIMARY_METRIC)
        if by_run:
            _print_by_run(reader, metric, run_id, benchmark, wanted, limit, as_json)
            return
        runs = reader.board_runs(run=run_id, benchmark=benchmark, labels=wanted)
    if len(runs) == MOST_BOARD_RUNS:
        say(f"the latest {MOST_BOARD_RUNS} runs are pooled; narrow them with --benchmark or --label")
    boards = boards_of(runs, metric, now, together=together or run_id is not None)
    if html is not None:
        write(one_file(leaderboard_document(boards, _facts(run_id, benchmark, labels, as_of), limit)), html)
    elif as_json:
        for board in with_words(boards):
            print_json(canonical_json(_limited(board, limit).model_dump(mode="json")))
    else:
        print_board(*leaderboard_tables(boards, limit), empty=f"No agent is on the board of {shown(metric)}.")


@contextmanager
def _leaderboard_of(
    settings: Settings, as_of: Position | None, run_id: str | None
) -> Iterator[tuple[StateReader | PastRuns, datetime]]:
    """The runs in Redis, or in the log as of a position; and the time at which states are determined."""
    if as_of is None:
        with StateReader(settings) as reader:
            yield reader, datetime.now(UTC)
        return
    from streamer.cli.as_of import runs_as_of  # only this folds

    past = runs_as_of(settings, as_of, run_id)
    yield past, past.moment


def _print_by_run(
    reader: StateReader | PastRuns,
    metric: str,
    run_id: str | None,
    benchmark: str | None,
    labels: Mapping[str, str],
    limit: int | None,
    as_json: bool,
) -> None:
    rows = reader.leaderboard(metric, run=run_id, benchmark=benchmark, labels=labels, limit=limit)
    if not as_json:
        print_board(leaders_table(metric, rows), empty=f"No agent is on the board of {shown(metric)}.")
        return
    for row in rows:
        print_json(canonical_json(asdict(row) | {"metric": metric, "value": json_number(row.value)}))


def _limited(board: BenchmarkBoard, limit: int | None) -> BenchmarkBoard:
    """At most so many rows, the ranked ones first."""
    if limit is None:
        return board
    left = max(0, limit - len(board.rows))
    return board.model_copy(update={"rows": board.rows[:limit], "below": board.below[:left]})


def _facts(
    run_id: str | None, benchmark: str | None, labels: tuple[str, ...], as_of: Position | None
) -> list[str]:
    past = None if as_of is None else f"as of {as_of}"
    return [fact for fact in (run_id, benchmark, *labels, past) if fact]
