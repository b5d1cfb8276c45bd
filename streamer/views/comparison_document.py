"""A comparison of two sides as a document: the same on the terminal, in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from streamer.schemas.details import NAMED
from streamer.text import counted, ends_in_points, points
from streamer.views.boards import COMPARED
from streamer.views.cells import text
from streamer.views.columns import Board, Column
from streamer.views.compare import value_of
from streamer.views.models import Comparison, Difference, SideTotals
from streamer.views.named_columns import named
from streamer.views.tables import Document, Table, table_of

OF_INTERVAL = "Of the mean difference on tasks like these, clustered by task."

COMPARED_BOARD = Board(
    "Metrics",
    (
        Column("metric", "mean over tasks", "name", ("metric",)),
        Column("a", "A", "number", ("a",), rank=3),
        Column("b", "B", "number", ("b",), rank=3),
        Column("moved", "B - A", "number", ("moved",), rank=1),
        Column("interval", "95 %", "number", ("interval",), hint=OF_INTERVAL, rank=2),
        Column("tasks", "tasks", "count", ("tasks",), hint="Tasks where both know it.", rank=5),
        Column("a_better", "A better", "count", ("a_better",), rank=6),
        Column("b_better", "B better", "count", ("b_better",), rank=6),
        Column("equal", "equal", "count", ("equal",), rank=6),
        Column(
            "p", "p", "number", ("p",), hint="Two-sided exact sign test over the tasks that differ.", rank=1
        ),
    ),
)
FLIPS = Board(
    "Tasks that one side alone passes",
    (
        Column("passed_by", "passed by", "state", ("passed_by",)),
        Column("tier", "tier", "tier", ("tier",)),
        Column("failure_mode", "the other failed by", "failure", ("failure_mode",)),
        Column("count", "tasks", "count", ("count",)),
        Column("tasks", "which", "list", ("tasks",)),
    ),
)
COMPARED_TASKS = Board(
    "Tasks with different pass rates, the most different first",
    (
        Column("task", "task", "name", ("task",)),
        Column("tier", "tier", "tier", ("tier",)),
        Column("a", "A", "percent", ("a", "pass_rate")),
        Column("a_trials", "trials", "count", ("a", "trials")),
        Column("b", "B", "percent", ("b", "pass_rate")),
        Column("b_trials", "trials", "count", ("b", "trials")),
    ),
)
NOT_COMMON = Board(
    "Tasks that are not compared",
    (
        Column("side", "only in", "state", ("side",)),
        Column("count", "tasks", "count", ("count",)),
        Column("tasks", "which", "list", ("tasks",)),
    ),
)

UNTESTED = "Without p: no task that differs has equal attempts."
STILL_OPEN = (
    f"Results or verdicts are missing: there are no intervals, and p holds only with all of them. {UNTESTED}"
)
METHODS = (
    f"p: exact sign test over the tasks that differ and have equal attempts. {UNTESTED} "
    "95 %: interval of the mean difference on tasks like these, clustered by task. "
    "Each row was asked for itself: of 20 equal metrics one looks different."
)


def comparison_document(found: Comparison) -> Document:
    """The whole comparison; of tasks those that it lists."""
    return Document(
        title="Two sides on their common tasks",
        facts=[f"A  {_side_words(found.a)}", f"B  {_side_words(found.b)}"],
        lines=[found.in_common, *found.words],
        tables=[_metrics(found), _flips(found), _pairs(found), _not_common(found)],
    )


def column_of(metric: str, difference: Difference) -> Column:
    """The column that says how values of a metric are written and what it is called."""
    if metric.startswith(NAMED):
        direction = "higher" if difference.higher_is_better else "lower"
        return named(metric, {"unit": difference.unit, "label": difference.label, "direction": direction})
    [column] = [column for column in COMPARED.columns if column.name == metric]
    return column


def written(column: Column, value: float | None) -> str:
    """A value of a compared metric as text."""
    return text(replace(column, path=("value",)), {"value": value})


def moved(column: Column, by: float | None) -> str:
    """A difference of two values of a compared metric, with its sign; percentages differ by points.

    >>> moved(COMPARED.columns[0], -0.05), moved(COMPARED.columns[4], 0.5), moved(COMPARED.columns[4], None)
    ('-5.0 points', '+$0.5000', '–')
    """
    if by is None or column.format == "percent":
        return points(by)
    return f"{'+' if by > 0 else ''}{_signed_difference(column, by)}"


def interval_of(column: Column, difference: Difference) -> str:
    """The interval of a difference as text, of percentages in points; "" where there is none."""
    ends = difference.interval
    if ends is None:
        return ""
    if column.format == "percent":
        return ends_in_points(ends.low, ends.high)
    return f"[{_signed_difference(column, ends.low)}, {_signed_difference(column, ends.high)}]"


def _signed_difference(column: Column, by: float) -> str:
    """The minus stands before the sign of a currency."""
    return f"{'-' if by < 0 else ''}{written(column, abs(by))}"


def _metrics(found: Comparison) -> Table:
    rows = list(_metric_rows(found))
    return table_of(COMPARED_BOARD, rows)._replace(note=METHODS if found.ended else STILL_OPEN)


def _metric_rows(found: Comparison) -> Iterable[dict[str, Any]]:
    for metric, difference in found.differences.items():
        if difference.tasks:
            column = column_of(metric, difference)
            yield {
                **difference.model_dump(include={"tasks", "a_better", "b_better", "equal"}),
                "metric": column.title if column.outside else metric,
                "a": written(column, value_of(found.a, metric)),
                "b": written(column, value_of(found.b, metric)),
                "moved": moved(column, difference.mean),
                "interval": interval_of(column, difference) or None,
                "p": None if difference.p_value is None else f"{difference.p_value:.3g}",
            }


def _flips(found: Comparison) -> Table:
    rows = [
        {
            **group.model_dump(exclude={"tasks"}),
            "passed_by": f"{group.passed_by.upper()} alone",
            "tasks": _listed(group.tasks, group.count),
        }
        for group in found.flips
    ]
    return table_of(FLIPS, rows)


def _pairs(found: Comparison) -> Table:
    differing = [pair for pair in found.pairs if pair.a.pass_rate != pair.b.pass_rate]
    left = found.a_better + found.b_better - len(differing)
    rows = [{"task": pair.task_id, "tier": pair.tier, "a": pair.a, "b": pair.b} for pair in differing]
    return table_of(COMPARED_TASKS, rows)._replace(note=f"and {left:,} more (--limit)" if left else "")


def _not_common(found: Comparison) -> Table:
    sides = (("A", found.not_in_b, found.a.only_here), ("B", found.not_in_a, found.b.only_here))
    rows = [
        {"side": side, "count": count, "tasks": _listed(tasks, count)}
        for side, tasks, count in sides
        if count
    ]
    return table_of(NOT_COMMON, rows)


def _listed(tasks: list[str], count: int) -> str:
    more = [f"and {count - len(tasks):,} more (--limit)"] if count > len(tasks) else []
    return ", ".join([*tasks, *more])


def _side_words(side: SideTotals) -> str:
    whose = "all but baselines" if side.agent_model is None else side.agent_model
    return f"{side.run}: {whose}, {counted(side.trials, 'trial')} of the common tasks"
