"""The tasks that one side of a comparison alone passes, in groups of like ones. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from streamer.views.failures import stated_mode
from streamer.views.models import FlipGroup, Side, TaskPair, TrialRow

Task = tuple[str, str | None]
"""Task id and tier."""

Rows = Mapping[Task, Sequence[TrialRow]]
"""The trials of one side, by task."""


def passes(side: Side) -> bool:
    """Whether a side passes a task: in more than half of its trials."""
    return side.pass_rate > 0.5


def name_of(task: Task) -> str:
    """How a task is listed: the tier in front, where there is one.

    >>> name_of(("fix", None)), name_of(("fix", "T0"))
    ('fix', 'T0/fix')
    """
    return task[0] if task[1] is None else f"{task[1]}/{task[0]}"


def flip_groups(pairs: Iterable[TaskPair], a: Rows, b: Rows, limit: int) -> list[FlipGroup]:
    """The tasks that one side alone passes, by that side, tier and how the other side failed.

    Args:
        pairs: the common tasks.
        a, b: the trials of each side.
        limit: at most so many tasks are listed of each group; its count is of all.

    Returns:
        First the groups that A passes, then B's groups; the largest first.
    """
    groups: dict[tuple[Literal["a", "b"], str | None, str | None], list[str]] = {}
    for pair in pairs:
        if passes(pair.a) == passes(pair.b):
            continue
        task = (pair.task_id, pair.tier)
        by: Literal["a", "b"] = "a" if passes(pair.a) else "b"
        mode = _failure_mode((b if by == "a" else a)[task])
        groups.setdefault((by, pair.tier, mode), []).append(name_of(task))
    found = [
        FlipGroup(passed_by=by, tier=tier, failure_mode=mode, count=len(names), tasks=sorted(names)[:limit])
        for (by, tier, mode), names in groups.items()
    ]
    return sorted(found, key=lambda g: (g.passed_by, -g.count, g.tier or "", g.failure_mode or ""))


def _failure_mode(trials: Iterable[TrialRow]) -> str | None:
    """The most frequent failure mode of the trials that failed, of several the first by name; None: none."""
    modes = Counter(stated_mode(trial.failure_mode) for trial in trials if not trial.success)
    named = [(-times, mode) for mode, times in modes.items() if mode is not None]
    return min(named)[1] if named else None
