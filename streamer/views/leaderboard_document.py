"""Leaderboards of benchmarks as tables and as a document: terminal, HTML file and page say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from streamer.schemas.metrics import BOARD_METRICS
from streamer.text import UNSEEN, shown
from streamer.views.boards import metric
from streamer.views.cells import text
from streamer.views.columns import Board, Column
from streamer.views.formatting import place
from streamer.views.leaderboard import BenchmarkBoard, BoardRow
from streamer.views.named_columns import named
from streamer.views.tables import Document, Table, table_of

POOLED = Board(
    "Leaderboard of a benchmark",
    (
        Column("agent", "agent:model", "agent", ("agent_model",)),
        Column("order", "order", "count", ("order",), on=("text",)),
        Column("rank", "place", "number", ("rank",), hint="Where it may truly stand, with 95 %"),
        Column("value", "value", "number", ("value",)),
        Column("interval", "95 %", "number", ("interval",), on=("text",)),
        Column("trials", "trials", "count", ("trials",)),
        Column("tasks", "tasks", "count", ("tasks",)),
        Column("unknown", "unknown", "some", ("unknown",), hint="Trials without a final value"),
        Column("runs", "runs", "count", ("runs",), hint="Finished runs that are pooled"),
        Column("newest", "newest run", "name", ("newest",)),
        Column("trend", "run by run", "state", ("trend",), hint="Finished runs, the oldest first"),
        Column("change", "change", "state", ("change",), hint="The newest run against the one before"),
        Column("why", "left out", "state", ("why",), on=("text",)),
    ),
)
"""The columns of a leaderboard that pools runs, on every surface."""

RANKED = (
    "place: with 95 % probability no agent's true place is outside its range, all agents at once "
    "(one-sided sign tests on common tasks, Holm). This holds for one board that was fixed beforehand, not "
    "for the best of many nights. Of every two agents as many of the newest runs count as give both equal "
    "attempts at a task. Without such runs the task tells them not apart, and ranges become wider."
)
NOT_RANKED = {
    "metric": "No ranks: two agents are tested against each other by passes alone, not by this metric.",
    "too_many_agents": "No ranks: more than 60 agents.",
    "one_agent": "No ranks: fewer than two agents have a finished run.",
}
ALL_RUNS = (
    "The value is of all finished runs together; 95 % is about tasks like these, clustered by task. "
    "Runs are left out while unfinished, and with fewer than 5 tasks or half of the fullest run's."
)
NEWEST = "The value and its 95 % are of the newest finished run: only passes can be pooled over runs."
UNKNOWN = (
    "unknown: trials without a final value, such as without a verdict. They count as not passed in the "
    "value, and both ways in the place and in the change."
)
CHANGED = (
    "change: the newest run against the one before of the same benchmark. real: the sign test over the "
    "common tasks with equal attempts shows it at 5 %. attempts differ: there is no such task. Of 20 "
    "unchanged agents about one looks changed."
)
MIXED = "Benchmarks are mixed: values of different tasks stand beside each other."

POINTS_LISTED = 5


def leaderboard_tables(boards: Iterable[BenchmarkBoard], limit: int | None = None) -> list[Table]:
    """A table for each benchmark: ranked agents first, runs that are left out below and marked.

    Args:
        limit: at most so many rows of each table; None: all.
    """
    return [_table(board, limit) for board in boards]


def leaderboard_document(
    boards: Sequence[BenchmarkBoard], facts: Sequence[str], limit: int | None = None
) -> Document:
    """All boards as one document.

    Args:
        facts: what they were narrowed to, such as a label.
        limit: as of `leaderboard_tables`.
    """
    lines = [] if any(board.rows or board.below for board in boards) else ["No agent is on this board."]
    return Document("Leaderboard", facts, lines, leaderboard_tables(boards, limit))


def with_words(boards: Iterable[BenchmarkBoard]) -> list[BenchmarkBoard]:
    """The same boards, each with its title and its notes."""
    return [board.model_copy(update={"title": title_of(board), "notes": notes_of(board)}) for board in boards]


def value_column(board: BenchmarkBoard) -> Column:
    """The column that says how values of a board are written and what they are called."""
    if board.metric in BOARD_METRICS:
        return metric(board.metric, path=("value",), sort=None)
    direction = "higher" if board.higher_is_better else "lower"
    says = {"unit": board.unit, "label": board.label, "direction": direction}
    return replace(named(board.metric, says), path=("value",), sort=None)


def title_of(board: BenchmarkBoard) -> str:
    """What stands above a board; names from outside stand in it."""
    if board.mixed:
        name = "All runs"
    elif board.benchmark is None:
        name = "Runs that name no benchmark"
    else:
        name = " ".join(
            [shown(board.benchmark), *([shown(board.versions[0])] if len(board.versions) == 1 else [])]
        )
    return f"{name}: {value_column(board).title}, {'highest' if board.higher_is_better else 'lowest'} first"


def notes_of(board: BenchmarkBoard) -> list[str]:
    """What the columns of a board mean, and why some say nothing; a sentence or two each."""
    said = [MIXED] if board.mixed else []
    if len(board.versions) > 1:
        said.append(f"Versions of the benchmark are pooled: {', '.join(map(shown, board.versions))}.")
    if board.rows:
        said.append(ALL_RUNS if board.metric == "pass_rate" else NEWEST)
        said.append(RANKED if board.rank_missing is None else NOT_RANKED[board.rank_missing])
    if any(row.unknown for row in board.rows):
        said.append(UNKNOWN)
    if any(row.change for row in board.rows):
        said.append(CHANGED)
    return said


def _table(board: BenchmarkBoard, limit: int | None) -> Table:
    value = value_column(board)
    columns = tuple(value if column.name == "value" else column for column in POOLED.columns)
    rows = [_row(row, value) for row in (*board.rows, *board.below)][:limit]
    return table_of(replace(POOLED, columns=columns), rows, title_of(board))._replace(
        note="\n".join(notes_of(board))
    )


def _row(row: BoardRow, value: Column) -> dict[str, Any]:
    ends = row.interval

    def write(one: float | str) -> str:
        return text(value, {"value": one})

    points = [write(point.value) for point in row.trend[-POINTS_LISTED:]] if len(row.trend) > 1 else []
    return {
        **row.model_dump(include={"agent_model", "order", "trials", "tasks", "unknown", "value", "why"}),
        "rank": place(row.rank) if row.rank else UNSEEN,
        "interval": f"[{write(ends.low)}, {write(ends.high)}]" if ends else None,
        "runs": len(row.runs),
        "newest": row.runs[0],
        "trend": ", ".join(points) or None,
        "change": row.change.said if row.change else None,
    }
