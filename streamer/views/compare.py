"""Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.

A task of a tier is compared with the same task of the same tier. Each task counts once, whatever its
attempts: of several the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum

from streamer.schemas.summaries import AgentModelSummary
from streamer.stats.sign_test import sign_test
from streamer.views.boards import COMPARED
from streamer.views.models import Comparison, Difference, Side, SideTotals, TaskPair, TrialRow

Task = tuple[str, str | None]
Named = tuple[str, str | None]
"""Run id, and agent:model or None."""

METRICS = {column.name: column.sort == "greatest" for column in COMPARED.columns}
"""The compared metrics -> whether higher is better."""


def side_of(
    rows: Iterable[TrialRow], agents: Iterable[AgentModelSummary], agent_model: str | None
) -> list[TrialRow]:
    """The trials of one side of a comparison.

    Args:
        rows: all trials of a run.
        agents: the run's, baselines too.
        agent_model: whose trials; None: of all but baselines.
    """
    wanted = {a.agent_model for a in agents if not a.baseline} if agent_model is None else {agent_model}
    return [row for row in rows if row.agent_model in wanted]


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
    differences = {metric: _difference(metric, pairs) for metric in METRICS}
    passed = Counter((pair.a.pass_rate > 0.5, pair.b.pass_rate > 0.5) for pair in pairs)
    return Comparison(
        a=_totals(names[0], pairs, 0, len(first) - len(both)),
        b=_totals(names[1], pairs, 1, len(second) - len(both)),
        tasks=len(pairs),
        a_better=differences["pass_rate"].a_better,
        b_better=differences["pass_rate"].b_better,
        equal=differences["pass_rate"].equal,
        both_passed=passed[True, True],
        only_a=passed[True, False],
        only_b=passed[False, True],
        neither=passed[False, False],
        differences=differences,
        pairs=pairs[offset : offset + limit],
        only_a_tasks=_flipped(pairs, passed_by_a=True)[offset : offset + limit],
        only_b_tasks=_flipped(pairs, passed_by_a=False)[offset : offset + limit],
        not_in_a=sorted(_name(task) for task in second if task not in first)[offset : offset + limit],
        not_in_b=sorted(_name(task) for task in first if task not in second)[offset : offset + limit],
    )


def _flipped(pairs: Iterable[TaskPair], *, passed_by_a: bool) -> list[str]:
    """Tasks that one side passes in more than half of its trials and the other does not, by name."""
    sides = (passed_by_a, not passed_by_a)
    found = (pair for pair in pairs if (pair.a.pass_rate > 0.5, pair.b.pass_rate > 0.5) == sides)
    return sorted(_name((pair.task_id, pair.tier)) for pair in found)


def _name(task: Task) -> str:
    """How a task is listed: the tier in front, where there is one."""
    return task[0] if task[1] is None else f"{task[1]}/{task[0]}"


def worse_by(difference: Difference) -> float | None:
    """By how much the second side is worse, in the unit of the metric; negative: it is better.

    None: there is no task where both sides know the metric.
    """
    if difference.mean is None:
        return None
    return -difference.mean if difference.higher_is_better else difference.mean


def _by_task(trials: Iterable[TrialRow]) -> dict[Task, list[TrialRow]]:
    found: dict[Task, list[TrialRow]] = {}
    for trial in trials:
        found.setdefault((trial.task_id, trial.tier), []).append(trial)
    return found


def _side(trials: Sequence[TrialRow]) -> Side:
    means = {metric: _mean(getattr(t, metric) for t in trials) for metric in METRICS if metric != "pass_rate"}
    return Side(trials=len(trials), pass_rate=sum(trial.success for trial in trials) / len(trials), **means)


def _difference(metric: str, pairs: Sequence[TaskPair]) -> Difference:
    """Over the tasks where both sides know the number, so that like is compared with like."""
    high = METRICS[metric]
    moved = [b - a for a, b in _known(metric, pairs)]
    up, down = sum(one > 0 for one in moved), sum(one < 0 for one in moved)
    return Difference(
        tasks=len(moved),
        mean=_mean(moved),
        higher_is_better=high,
        a_better=down if high else up,
        b_better=up if high else down,
        equal=len(moved) - up - down,
        p_value=sign_test(up, down),
    )


def _totals(name: Named, pairs: Sequence[TaskPair], which: int, only_here: int) -> SideTotals:
    means = {metric: _mean(values[which] for values in _known(metric, pairs)) for metric in METRICS}
    return SideTotals(
        run=name[0],
        agent_model=name[1],
        trials=sum((pair.a, pair.b)[which].trials for pair in pairs),
        only_here=only_here,
        **means,
    )


def _known(metric: str, pairs: Sequence[TaskPair]) -> list[tuple[float, float]]:
    """The values of both sides on the tasks where both know it."""
    values = [(getattr(pair.a, metric), getattr(pair.b, metric)) for pair in pairs]
    return [(a, b) for a, b in values if a is not None and b is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
