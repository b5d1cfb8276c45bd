"""The history of a run as points of a chart: few enough to draw, the latest of every group among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from streamer.client.results import HistoryEntry
from streamer.schemas.details import NAMED
from streamer.schemas.identity import agent_model_label, decode_id
from streamer.views.models import HistoryPoint

COUNTS = ("trials", "done", "planned")
NUMBERS = (
    "accuracy",
    "pass_rate",
    "composite_score",
    "total_cost",
    "cost_of_pass",
    "mean_speedup",
    "agent_advantage",
)
_NOT_FINITE = {"Infinity", "-Infinity", "NaN"}

T = TypeVar("T")


def history_points(entries: Iterable[HistoryEntry], kind: str | None, limit: int) -> list[HistoryPoint]:
    """Entries as points, oldest first.

    Args:
        entries: oldest first.
        kind: only these; None: all.
        limit: at most so many points per group, 2 or more.
    """
    groups: dict[tuple[str, str], list[HistoryEntry]] = {}
    for entry in entries:
        if kind in (None, entry.kind):
            groups.setdefault((entry.kind, entry.group), []).append(entry)
    kept = [entry for group in groups.values() for entry in thinned(group, limit)]
    return [point_of(entry) for entry in sorted(kept, key=lambda entry: _order(entry.id))]


def thinned(items: Sequence[T], limit: int) -> list[T]:
    """At most `limit` (2 or more) of the items, evenly spread, the first and the last among them.

    >>> thinned([1, 2, 3, 4, 5], 3), thinned([1, 2], 3), thinned([], 3)
    ([1, 3, 5], [1, 2], [])
    """
    if len(items) <= limit:
        return list(items)
    step = (len(items) - 1) / (limit - 1)
    return [items[round(number * step)] for number in range(limit)]


def point_of(entry: HistoryEntry) -> HistoryPoint:
    """One entry with its numbers as numbers."""
    tier, agent_model = group_of(entry.kind, entry.group)
    numbers: dict[str, Any] = {name: _number(entry.headline.get(name)) for name in NUMBERS}
    counts: dict[str, Any] = {name: _count(entry.headline.get(name)) for name in COUNTS}
    named: dict[str, Any] = {
        name.removeprefix(NAMED): _number(mean)
        for name, mean in entry.headline.items()
        if name.startswith(NAMED)
    }
    provisional = entry.headline.get("provisional")
    return HistoryPoint(
        id=entry.id,
        kind=entry.kind,  # type: ignore[arg-type]
        agent_model=agent_model,
        tier=tier,
        epoch=entry.epoch,
        state_version=entry.state_version,
        last_event_at=entry.last_event_at,
        deleted=entry.deleted,
        grade=entry.headline.get("grade"),  # type: ignore[arg-type]
        metrics=named,
        provisional=None if provisional is None else provisional == "true",
        **numbers,
        **counts,
    )


def group_of(kind: str, suffix: str) -> tuple[str | None, str | None]:
    """Tier and agent:model of a group, from what follows the kind in the suffix of its Redis key.

    >>> group_of("tier", "T1:a%3Ab:m"), group_of("agent_model", "a:m"), group_of("run", "")
    (('T1', 'a%3Ab:m'), (None, 'a:m'), (None, None))
    """
    parts = [decode_id(part) for part in suffix.split(":")] if suffix else []
    tier = parts.pop(0) if kind == "tier" else None
    return tier, agent_model_label(*parts) if len(parts) == 2 else None


def _order(entry_id: str) -> tuple[int, int]:
    """Redis stream ids are `milliseconds-number`."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)


def _number(text: str | None) -> float | str | None:
    return text if text is None or text in _NOT_FINITE else float(text)


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)
