"""Two runs or two agents, on the tasks that both have done. Pure.

A task of a tier is compared with the same task of the same tier. Each task counts once, whatever its
attempts: of several the mean is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from streamer.web.models import Comparison, Side, SideTotals, TaskPair, TrialRow

Task = tuple[str, str | None]
Named = tuple[str, str | None]
"""Run id, and agent:model or None."""


def compare(
    a: Iterable[TrialRow], b: Iterable[TrialRow], names: tuple[Named, Named], offset: int, limit: int
) -> Comparison:
    """Compare two lists of trials.

    Args:
        a, b: the trials of each side.
        names: what the sides are called.
        offset, limit: which of the pairs to list; the counts are of all.
    """
    first, second = _by_task(a), _by_task(b)
    both = [task for task in first if task in second]
    pairs = [TaskPair(task_id=t[0], tier=t[1], a=_side(first[t]), b=_side(second[t])) for t in both]
    pairs.sort(key=lambda pair: (-abs(pair.a.pass_rate - pair.b.pass_rate), pair.task_id, pair.tier or ""))
    better = [pair.a.pass_rate - pair.b.pass_rate for pair in pairs]
    return Comparison(
        a=_totals(names[0], pairs, 0, len(first) - len(both)),
        b=_totals(names[1], pairs, 1, len(second) - len(both)),
        tasks=len(pairs),
        a_better=sum(difference > 0 for difference in better),
        b_better=sum(difference < 0 for difference in better),
        equal=sum(difference == 0 for difference in better),
        pairs=pairs[offset : offset + limit],
    )


def _by_task(trials: Iterable[TrialRow]) -> dict[Task, list[TrialRow]]:
    found: dict[Task, list[TrialRow]] = {}
    for trial in trials:
        found.setdefault((trial.task_id, trial.tier), []).append(trial)
    return found


def _side(trials: Sequence[TrialRow]) -> Side:
    return Side(
        trials=len(trials),
        pass_rate=sum(trial.success for trial in trials) / len(trials),
        composite_score=_mean(trial.composite_score for trial in trials),
        cost_usd=_mean(trial.cost_usd for trial in trials),
        duration_seconds=_mean(trial.duration_seconds for trial in trials),
    )


def _totals(name: Named, pairs: Sequence[TaskPair], which: int, only_here: int) -> SideTotals:
    """Means over the tasks where both sides know the number, so that like is compared with like."""
    sides = [(pair.a, pair.b) for pair in pairs]

    def mean_of(field: str) -> float | None:
        known = [side for side in sides if None not in (getattr(side[0], field), getattr(side[1], field))]
        return _mean(getattr(side[which], field) for side in known)

    return SideTotals(
        run=name[0],
        agent_model=name[1],
        trials=sum(side[which].trials for side in sides),
        only_here=only_here,
        pass_rate=mean_of("pass_rate"),
        composite_score=mean_of("composite_score"),
        cost_usd=mean_of("cost_usd"),
        duration_seconds=mean_of("duration_seconds"),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
