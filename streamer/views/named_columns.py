"""Columns of metrics that harnesses name themselves (R30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from streamer.schemas.details import NAMED
from streamer.schemas.metrics import BoardMetric, named_metric
from streamer.text import shown
from streamer.views.columns import Board, Column, found

MOST_NAMED_COLUMNS = 6
"""Named metrics that have a column; all are in the summaries."""

_FORMATS = {"USD": "dollars", "seconds": "span"}
_FORMAT = "number"
"""The format of each of these units, and the format of all others."""

_BEHIND = ("pass_rate",)
"""The column of groups behind which named metrics stand."""

_BEHIND_OF_TRIALS = ("duration_seconds",)
"""The columns of trials behind which they stand."""


def format_of(unit: str) -> str:
    """How a number of that unit is written.

    >>> format_of("USD"), format_of("seconds"), format_of("furlongs")
    ('dollars', 'span', 'number')
    """
    return _FORMATS.get(unit, _FORMAT)


def named(metric: str, says: Any) -> Column:
    """The column of a named metric, `metrics/NAME`.

    Args:
        says: how to read it: `direction`, `unit` and `label`, as summaries have them; None: not known.
    """
    of = read_as(metric.removeprefix(NAMED), says)
    first: Literal["greatest", "least"] = "greatest" if of.higher_is_better else "least"
    return Column(
        metric,
        shown(of.label),
        format_of(of.unit),
        of.path,
        sort=first,
        rank=2,
        hint=of.description,
        outside=True,
    )


def read_as(name: str, says: Any) -> BoardMetric:
    """A named metric by its plain name, with `says` as of `named`."""
    return named_metric(name, {part: found(says, (part,)) for part in ("direction", "unit", "label")})


def for_page() -> dict[str, Any]:
    """The rules of this module that `streamer/web/static/js/named.js` follows, as a JSON value."""
    return {
        "prefix": NAMED,
        "most": MOST_NAMED_COLUMNS,
        "behind": list(_BEHIND),
        "behind_of_trials": list(_BEHIND_OF_TRIALS),
        "formats": _FORMATS,
        "format": _FORMAT,
    }


def with_named(board: Board, groups: Iterable[Any]) -> Board:
    """The board with columns of the groups' named metrics, behind the pass rate.

    Planned ones come first, then those with more trials, :data:`MOST_NAMED_COLUMNS` in all.
    """
    says: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for group in groups:
        for name, statistics in (found(group, ("metrics",)) or {}).items():
            says.setdefault(name, statistics)
            counts[name] += found(statistics, ("count",))
    planned = {name for name, of in says.items() if found(of, ("planned",))}
    names = foremost(counts, planned, MOST_NAMED_COLUMNS)
    return _behind(board, _BEHIND, [named(NAMED + name, says[name]) for name in names])


def with_values(
    board: Board, trials: Iterable[Mapping[str, Any]], planned: Mapping[str, Any] | None = None
) -> Board:
    """The board of trials with columns of their named metrics, behind the duration.

    Args:
        planned: named metrics of the plan, which come first, and how to read them; None: not known.
    """
    reading = planned or {}
    counts = Counter(name for trial in trials for name in trial.get("metrics") or ())
    columns = [
        replace(named(NAMED + name, reading.get(name)), path=("metrics", name), sort=None, hint="")
        for name in foremost(counts, reading, MOST_NAMED_COLUMNS)
    ]
    return _behind(board, _BEHIND_OF_TRIALS, columns)


def foremost(counts: Mapping[str, int], planned: Container[str], most: int) -> list[str]:
    """At most so many names: planned ones first, then those with more trials, then by name.

    >>> foremost({"a": 1, "b": 2, "c": 2, "z": 0}, {"z"}, 3)
    ['z', 'b', 'c']
    """
    return sorted(counts, key=lambda name: (name not in planned, -counts[name], name))[:most]


def _behind(board: Board, names: Container[str], columns: Sequence[Column]) -> Board:
    at = 1 + max(n for n, column in enumerate(board.columns) if column.name in names)
    return replace(board, columns=(*board.columns[:at], *columns, *board.columns[at:]))
