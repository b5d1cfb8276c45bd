"""Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.

A task of a tier is compared with the same task of the same tier. Each task counts once, whatever its
attempts: of several the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum, isfinite
from typing import Any, NamedTuple

from streamer.client.results import ComparedRun
from streamer.inference.ability import Clusters, mean_interval
from streamer.schemas.details import NAMED
from streamer.schemas.metrics import BoardMetric
from streamer.schemas.summaries import AgentModelSummary
from streamer.stats.sign_test import sign_test
from streamer.text import counted
from streamer.views.boards import COMPARED
from streamer.views.comparisons import between
from streamer.views.flips import Rows, Task, flip_groups, name_of, passes
from streamer.views.models import Comparison, Difference, Ends, Side, SideTotals, TaskPair, TrialRow
from streamer.views.named_columns import read_as

Named = tuple[str, str | None]
"""Run id, and agent:model or None."""

COMPARED_METRICS = {column.name: column.sort == "greatest" for column in COMPARED.columns}
"""The compared metrics -> whether higher is better."""


class ComparedSide(NamedTuple):
    """One side of a comparison.

    Attributes:
        run: its run, with the tasks.
        agents: of the run, baselines too.
        agent_model: whose trials are compared; None: of all but baselines.
        rows: these trials.
    """

    run: ComparedRun
    agents: Sequence[AgentModelSummary]
    agent_model: str | None
    rows: Sequence[TrialRow]


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


def has_ended(run: ComparedRun, agents: Iterable[AgentModelSummary], agent_model: str | None) -> bool:
    """Whether no trial of one side is missing: intervals and the sign test hold then (inference 7).

    Args:
        run: the side's run, with its tasks.
        agents: the run's, baselines too.
        agent_model: whose trials; None: of all but baselines.
    """
    wanted = [a for a in agents if (not a.baseline if agent_model is None else a.agent_model == agent_model)]
    labels = {agent.agent_model for agent in wanted}
    unknown = any(held[label][2] for held in run.tasks.values() for label in labels & held.keys())
    known_plan = run.run.progress.planned is not None or run.run.status is not None
    return bool(wanted) and known_plan and not unknown and not any(agent.provisional for agent in wanted)


def compare_sides(a: ComparedSide, b: ComparedSide, offset: int, limit: int) -> Comparison:
    """Compare two sides, and say what may be said of them (inference 8).

    Args:
        a, b: the sides; of a named metric that both plans explain, the first one's words count.
        offset, limit: which of the tasks to list; the counts are of all.
    """
    found = compare(
        a.rows,
        b.rows,
        ((a.run.run.run_id, a.agent_model), (b.run.run.run_id, b.agent_model)),
        offset,
        limit,
        ended=all(has_ended(side.run, side.agents, side.agent_model) for side in (a, b)),
        readings={**b.run.run.metrics, **a.run.run.metrics},
    )
    words = between(a.run, b.run, a.agent_model, b.agent_model, ended=found.ended)
    return found.model_copy(update={"words": words, "in_common": _in_common(found)})


def compare(
    a: Iterable[TrialRow],
    b: Iterable[TrialRow],
    names: tuple[Named, Named],
    offset: int,
    limit: int,
    *,
    ended: bool = False,
    readings: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare two lists of trials.

    Args:
        a, b: the trials of each side.
        names: what the sides are called.
        offset, limit: which of the pairs to list; the counts are of all.
        ended: no trial of either side is missing, see `has_ended`; only then are there intervals.
        readings: named metric to how to read it, as run summaries have it; None: not known.
    """
    first, second = _by_task(a), _by_task(b)
    both = [task for task in first if task in second]
    pairs = [TaskPair(task_id=t[0], tier=t[1], a=_side_of(first[t]), b=_side_of(second[t])) for t in both]
    pairs.sort(key=lambda pair: (-abs(pair.a.pass_rate - pair.b.pass_rate), pair.task_id, pair.tier or ""))
    of_names = _named_metrics(pairs, readings or {})
    differences = {
        metric: _difference(metric, high, pairs, ended) for metric, high in COMPARED_METRICS.items()
    }
    for metric, of in of_names.items():
        says = {"unit": None if of.unit == "1" else of.unit, "label": of.label}
        plain = _difference(metric, of.higher_is_better, pairs, ended)
        differences[metric] = plain.model_copy(update=says)
    passed = Counter((passes(pair.a), passes(pair.b)) for pair in pairs)
    listed = slice(offset, offset + limit)
    return Comparison(
        a=_totals(names[0], pairs, 0, len(first) - len(both), of_names),
        b=_totals(names[1], pairs, 1, len(second) - len(both), of_names),
        tasks=len(pairs),
        a_better=differences["pass_rate"].a_better,
        b_better=differences["pass_rate"].b_better,
        equal=differences["pass_rate"].equal,
        both_passed=passed[True, True],
        only_a=passed[True, False],
        only_b=passed[False, True],
        neither=passed[False, False],
        differences=differences,
        ended=ended,
        flips=flip_groups(pairs, first, second, limit),
        pairs=pairs[listed],
        only_a_tasks=_flipped(pairs, passed_by_a=True)[listed],
        only_b_tasks=_flipped(pairs, passed_by_a=False)[listed],
        not_in_a=sorted(name_of(task) for task in second if task not in first)[listed],
        not_in_b=sorted(name_of(task) for task in first if task not in second)[listed],
    )


def _in_common(found: Comparison) -> str:
    return (
        f"{counted(found.tasks, 'task')} in common: passed by both {found.both_passed:,}, by A alone "
        f"{found.only_a:,}, by B alone {found.only_b:,}, by neither {found.neither:,}; "
        f"only in A {found.a.only_here:,}, only in B {found.b.only_here:,}"
    )


def _flipped(pairs: Iterable[TaskPair], *, passed_by_a: bool) -> list[str]:
    """The tasks that one side passes and the other does not, by name."""
    sides = (passed_by_a, not passed_by_a)
    return sorted(name_of((p.task_id, p.tier)) for p in pairs if (passes(p.a), passes(p.b)) == sides)


def _named_metrics(pairs: Iterable[TaskPair], readings: Mapping[str, Any]) -> dict[str, BoardMetric]:
    """The named metrics that both sides know on some task, by `metrics/NAME`."""
    names = sorted({name for pair in pairs for name in pair.a.metrics.keys() & pair.b.metrics.keys()})
    of = (read_as(name, readings.get(name)) for name in names)
    return {metric.name: metric for metric in of}


def worse_by(difference: Difference) -> float | None:
    """By how much the second side is worse, in the unit of the metric; negative: it is better.

    None: there is no task where both sides know the metric.
    """
    if difference.mean is None:
        return None
    return -difference.mean if difference.higher_is_better else difference.mean


def value_of(means: Side | SideTotals, metric: str) -> float | None:
    """The mean of a metric, built-in or `metrics/NAME`; None: not known."""
    if metric.startswith(NAMED):
        return means.metrics.get(metric.removeprefix(NAMED))
    value: float | None = getattr(means, metric)
    return value


def _by_task(trials: Iterable[TrialRow]) -> Rows:
    found: dict[Task, list[TrialRow]] = {}
    for trial in trials:
        found.setdefault((trial.task_id, trial.tier), []).append(trial)
    return found


def _side_of(trials: Sequence[TrialRow]) -> Side:
    means = {
        metric: _mean(getattr(t, metric) for t in trials)
        for metric in COMPARED_METRICS
        if metric != "pass_rate"
    }
    names = {name for trial in trials for name in trial.metrics}
    return Side(
        trials=len(trials),
        pass_rate=sum(trial.success for trial in trials) / len(trials),
        metrics={name: _mean(trial.metrics.get(name) for trial in trials) for name in names},
        **means,
    )


def _difference(metric: str, high: bool, pairs: Sequence[TaskPair], ended: bool) -> Difference:
    """Over the tasks where both sides know the number, so that like is compared with like.

    The test leaves out tasks with unequal attempts, for the reason that `TaskPair.won` of `inference` gives.
    """
    moved = [b - a for a, b in _known(metric, pairs)]
    even = [b - a for a, b in _known(metric, [pair for pair in pairs if pair.a.trials == pair.b.trials])]
    up, down = sum(one > 0 for one in moved), sum(one < 0 for one in moved)
    tested_up, tested_down = sum(one > 0 for one in even), sum(one < 0 for one in even)
    untested = up + down > 0 == tested_up + tested_down
    return Difference(
        tasks=len(moved),
        mean=_mean(moved),
        interval=_interval(moved) if ended else None,
        higher_is_better=high,
        a_better=down if high else up,
        b_better=up if high else down,
        equal=len(moved) - up - down,
        p_value=None if untested else sign_test(tested_up, tested_down),
    )


def _interval(moved: Sequence[float]) -> Ends | None:
    """The interval of the mean of the tasks' differences; each task is a cluster (inference 6)."""
    if not all(map(isfinite, moved)):
        return None
    found = mean_interval(Clusters.of_sums((1, one) for one in moved))
    return found and Ends(low=found.low, high=found.high)


def _totals(
    name: Named, pairs: Sequence[TaskPair], which: int, only_here: int, named: Iterable[str]
) -> SideTotals:
    means = {metric: _mean(values[which] for values in _known(metric, pairs)) for metric in COMPARED_METRICS}
    return SideTotals(
        run=name[0],
        agent_model=name[1],
        trials=sum((pair.a, pair.b)[which].trials for pair in pairs),
        only_here=only_here,
        metrics={n.removeprefix(NAMED): _mean(v[which] for v in _known(n, pairs)) for n in named},
        **means,
    )


def _known(metric: str, pairs: Sequence[TaskPair]) -> list[tuple[float, float]]:
    """The values of both sides on the tasks where both know it."""
    values = [(value_of(pair.a, metric), value_of(pair.b, metric)) for pair in pairs]
    return [(a, b) for a, b in values if a is not None and b is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
