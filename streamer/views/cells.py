"""Cells of the boards as text: a value in the format of its column. Pure.

Rows are summaries, trials or places of a leaderboard, as their models or as the dicts of their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from streamer.client.lifecycle import PLAN_INCOMPLETE, plan_words
from streamer.text import UNSEEN, dollars, percent, ratio, shown, visible
from streamer.views.columns import Column, found
from streamer.views.failures import stated_mode
from streamer.views.formatting import (
    age,
    finite,
    largest_k,
    minute,
    of_planned,
    share_of,
    share_of_pass,
    span,
)
from streamer.views.uncertainty import decided, pass_rate, short_pass_rate
from streamer.views.wording import GRADES, OUTCOMES, basis, grade, marked_grade, pass_at_ends


def sort_value(column: Column, row: Any) -> Any:
    """What rows are sorted by; None: not known."""
    value, second = found(row, column.path), found(row, column.beside) if column.beside else None
    if column.format == "filled":
        return share_of(value, second)
    if column.format == "run":
        value = value or second
    if value is None or value == "NaN":
        return None
    if column.format == "age":
        return value
    if column.format == "grade":
        return GRADES.index(value)
    if column.format == "place":
        return int(value.partition("-")[0])
    return str(value).casefold() if column.left else float(value)


def text(column: Column, row: Any) -> str:
    """A cell of a table of a command or a report; an unknown value is a dash."""
    second = found(row, column.beside) if column.beside else None
    return FORMATS[column.format](found(row, column.path), second, row)


def short(column: Column, row: Any, now: datetime) -> str:
    """A cell of a screen: marks beside a grade instead of words, an age instead of a time."""
    if column.format == "grade":
        return marked_grade(row)
    if column.format == "pass_rate":
        return short_pass_rate(row)
    if column.format == "age":
        return age(found(row, column.path), now)
    return text(column, row)


def known(columns: Sequence[Column], rows: Sequence[Any]) -> list[Column]:
    """The columns that some row has a value for; the first in any case."""
    return [c for at, c in enumerate(columns) if not at or any(text(c, row) != c.empty for row in rows)]


def _agent(label: str | None, _: Any, row: Any) -> str:
    return visible(label) + (" (baseline)" if found(row, ("baseline",)) else "")


def _infrastructure(without: float | None, failures: int | None, _: Any) -> str:
    return f"{percent(without)} ({failures:,})" if failures else UNSEEN


def _pass_at_most(pass_at_k: Any, _: Any, __: Any) -> str:
    most = largest_k(pass_at_k)
    return f"{most}: {share_of_pass(pass_at_k, most)}" if most else UNSEEN


def _progress(done: int, planned: int | None, run: Any) -> str:
    """The trials, of so many if that is known; a plan that is not complete is named."""
    words = plan_words(run)
    return f"{done:,} ({words})" if words == PLAN_INCOMPLETE else of_planned(done, planned)


def _verdict(resolved: bool | None, source: str | None, _: Any) -> str:
    """The verdict; a derived one says so (R27)."""
    return shown(resolved) + " (derived)" * (source == "derived")


def _value(write: Callable[[Any], str]) -> Callable[[Any, Any, Any], str]:
    return lambda value, _, __: write(value)


FORMATS: dict[str, Callable[[Any, Any, Any], str]] = {
    "age": _value(minute),
    "agent": _agent,
    "basis": lambda _, __, row: basis(row),
    "count": _value(shown),
    "decided": lambda _, __, row: decided(row),
    "dollars": _value(dollars),
    "failure": _value(lambda mode: visible(stated_mode(mode))),
    "filled": lambda done, planned, _: percent(share_of(done, planned)),
    "gain": _value(ratio),
    "gain_percent": _value(lambda gain: percent(finite(gain))),
    "grade": lambda letter, _, row: grade(row),
    "id": lambda run_id, name, _: visible(run_id) if name else UNSEEN,
    "infrastructure": _infrastructure,
    "letter": _value(visible),
    "list": _value(visible),
    "name": _value(visible),
    "number": _value(shown),
    "of": lambda count, whole, _: of_planned(count, whole),
    "outcome": _value(lambda word: OUTCOMES[word]),
    "pass_rate": lambda _, __, row: pass_rate(row),
    "pass_at_1": _value(lambda pass_at_k: share_of_pass(pass_at_k, "1")),
    "pass_at_ends": lambda _, __, row: pass_at_ends(row),
    "pass_at_most": _pass_at_most,
    "percent": _value(percent),
    "place": _value(shown),
    "progress": _progress,
    "ratio": _value(ratio),
    "run": lambda name, run_id, _: visible(name or run_id),
    "score": _value(shown),
    "some": _value(lambda count: shown(count or None)),
    "span": _value(span),
    "state": _value(visible),
    "task": lambda task, shard, _: visible(f"{shard}: {task}" if shard else task),
    "tier": lambda tier, subtest, _: visible(f"{tier}/{subtest}" if tier and subtest else tier),
    "times": _value(ratio),
    "verdict": _verdict,
}
"""Format -> how the value, the second value and the row become text."""
