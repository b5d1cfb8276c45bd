"""Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.

A task of a tier is compared with the same task of the same tier. Each task counts once, whatever its
attempts: of several the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import fsum, isfinite
from typing import Any, Literal, NamedTuple

from pydantic import Field

from streamer.client.queries import ComparedRun
from streamer.schemas.base import Message
from streamer.schemas.events import NAMED, BoardMetric
from streamer.schemas.summaries import (
    AgentModelSummary,
    ComparedPair,
    ComparisonMissing,
    RunComparison,
    TaskOutcomes,
)
from streamer.statistics.ability import Clusters, mean_interval
from streamer.statistics.exact import quotient, sign_test
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import Attempts, Paired, PairedTask, paired
from streamer.text import counted, ends_in_points, points
from streamer.views.cells import place, text
from streamer.views.columns import COMPARED, Board, Column, named, read_as
from streamer.views.models import (
    AnyRow,
    Comparison,
    Difference,
    Ends,
    FlipGroup,
    Side,
    SideTotals,
    TaskPair,
    stated_mode,
)
from streamer.views.tables import Document, Table, table_of

# -----------------------------------------------------------------------------
# The tasks that one side of a comparison alone passes, in groups of like ones. Pure.


Task = tuple[str, str | None]
"""Task id and tier."""

Rows = Mapping[Task, Sequence[AnyRow]]
"""The trials of one side, by task."""


def passes(side: Side) -> bool:
    """Whether a side passes a task: in more than half of its trials."""
    return side.pass_rate is not None and side.pass_rate > 0.5


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
    flips = [
        FlipGroup(passed_by=by, tier=tier, failure_mode=mode, count=len(names), tasks=sorted(names)[:limit])
        for (by, tier, mode), names in groups.items()
    ]
    return sorted(flips, key=lambda g: (g.passed_by, -g.count, g.tier or "", g.failure_mode or ""))


def _failure_mode(trials: Iterable[AnyRow]) -> str | None:
    """The most frequent failure mode of the trials that failed, of several the first by name; None: none."""
    modes = Counter(stated_mode(trial.failure_mode) for trial in trials if trial.success is False)
    named = [(-times, mode) for mode, times in modes.items() if mode is not None]
    return min(named)[1] if named else None


# -----------------------------------------------------------------------------
# Two agents of a run as the worker counted them, with what may be said of them (inference 7 and 8).
#
# The numbers come from `inference.paired`; here they get the words that every surface uses.


RANKS = Board(
    "Where each agent may truly stand",
    (
        Column("agent_model", "agent:model", "name", ("agent_model",)),
        Column("rank", "place", "state", ("rank",)),
    ),
)
AGENT_PAIRS = Board(
    "Every two agents",
    (
        Column("a", "a", "name", ("a",)),
        Column("b", "b", "name", ("b",)),
        Column("wins", "only a passed", "count", ("wins",)),
        Column("losses", "only b passed", "count", ("losses",)),
        Column("ties", "the same", "count", ("ties",)),
        Column("unknown", "unknown", "count", ("unknown",)),
        Column("words", "what may be said", "state", ("words",)),
    ),
)
MISSING: dict[ComparisonMissing, str] = {
    "no_plan": "the run has declared no complete plan, and it has not finished",
    "plan_exceeded": "there are more trials than planned, and the run has not finished",
    "too_many_agents": "more than 60 agents",
    "too_many_trials": "too many trials to compare once a second",
    "no_verdicts": "trials have numbers alone, and no verdict",
}
"""Why there are no ranks, for people."""

NOTHING = "Nothing separates"
"""How the words of two agents begin that are not told apart yet."""

EITHER = 2 / ALPHA
"""An e-value that shows one of two directions, whichever it is, however often you look."""


class Range(Message):
    """Both ends of a difference of pass rates."""

    low: float = Field(ge=-1, le=1, description="Lower end.")
    high: float = Field(ge=-1, le=1, description="Upper end.")


class PairStanding(Message):
    """Two agents on their common tasks: `a` less `b`."""

    a: str = Field(description="Label of the first agent:model.")
    b: str = Field(description="Label of the second agent:model.")
    counts: ComparedPair | None = Field(description="As published; null: not both of the same comparison.")
    tasks: int = Field(ge=0, description="Common tasks, planned ones too.")
    ahead: int = Field(ge=0, description="Tasks that `a` passes more often.")
    behind: int = Field(ge=0, description="Tasks that `b` passes more often.")
    equal: int = Field(ge=0, description="Tasks that both pass equally often.")
    open: int = Field(ge=0, description="Tasks that are undecided.")
    uneven: int = Field(ge=0, description="Tasks with unequal attempts: no e-value and no test uses them.")
    difference: float | None = Field(
        description="Of the pass rates on the tasks with results of both, so far; null: no such task."
    )
    final: Range | None = Field(
        description="Final difference in this run, 95 %, however often you look; null: none."
    )
    reachable: Range | None = Field(description="Differences that are still possible; null: no plan.")
    better: float = Field(gt=0, description="e-value that `a` is better; 40 shows it, whenever you look.")
    worse: float = Field(gt=0, description="e-value that `a` is worse; 40 shows it, whenever you look.")
    ended: bool = Field(description="True if no trial is missing.")
    interval: Range | None = Field(description="On tasks like these, 95 %, clustered; null before the end.")
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Exact two-sided sign test; null: `ended` is false, or attempts are nowhere equal.",
    )
    words: list[str] = Field(description="What may be said, one sentence each; names are not escaped.")


def pair_standings(compared: ComparedRun, only: Collection[str] | None = None) -> list[PairStanding]:
    """Every two agents of a run, in the order of the comparison; [] if there is none.

    Args:
        compared: as `StateReader.comparison` gives it.
        only: labels of two agents, to get their pair alone; None: all pairs.
    """
    comparison = compared.comparison
    if comparison is None:
        return []
    labels = [agent.agent_model for agent in comparison.agents]
    return [
        pair_standing(comparison, pair, labels[pair.a], labels[pair.b], compared.tasks)
        for pair in comparison.pairs
        if only is None or {labels[pair.a], labels[pair.b]} == set(only)
    ]


def pair_standing(
    comparison: RunComparison, counts: ComparedPair, a: str, b: str, tasks: Mapping[str, TaskOutcomes]
) -> PairStanding:
    """Two agents of one comparison."""
    pairs = task_pairs(tasks, tasks, a, b, comparison.planned)
    complete = comparison.planned is not None or comparison.ended
    result = paired(pairs, complete=complete)
    final = None
    if counts.final is not None and counts.pairs:
        low, high = (quotient(end, counts.pairs) for end in (counts.final.low, counts.final.high))
        final = Range(low=low, high=high)
    return PairStanding.like(
        result,
        a=a,
        b=b,
        counts=counts,
        final=final,
        reachable=_range_of(result.reachable),
        interval=_range_of(result.interval),
        words=list(_pair_words(a, b, result, final, shuffled=comparison.order_kind == "shuffled")),
    )


def between(
    a: ComparedRun, b: ComparedRun, a_agent: str | None, b_agent: str | None, *, ended: bool
) -> list[str]:
    """What may be said of an agent of one run and an agent of the same or another run; [] of several agents.

    Two agents of one run have the words of their pair. Across runs there is no final difference: nothing but
    the tasks that both have begun is compared, and it has ended once both runs lack nothing.

    Args:
        a, b: the runs, as `StateReader.comparison` gives them.
        a_agent, b_agent: agent:model of each; None: the only one that is no baseline.
        ended: no trial of either side is missing, see `has_ended`.
    """
    ours, theirs = a_agent or _only_agent(a), b_agent or _only_agent(b)
    if ours is None or theirs is None:
        return []
    if a.run.run_id == b.run.run_id:
        return [said for pair in pair_standings(a, (ours, theirs)) for said in pair.words]
    result = paired(task_pairs(a.tasks, b.tasks, ours, theirs, None), complete=ended)
    names = (f"{ours} of {a.run.run_id}", f"{theirs} of {b.run.run_id}")
    return list(_pair_words(*names, result, None, shuffled=False, about=" on tasks like these"))


def _only_agent(run: ComparedRun) -> str | None:
    labels = {label for outcomes in run.tasks.values() for label in outcomes}
    return labels.pop() if len(labels) == 1 else None


def comparison_tables(compared: ComparedRun) -> list[Table]:
    """The ranks, and every two agents in a sentence; [] without a comparison."""
    comparison = compared.comparison
    if comparison is None:
        return []
    ranked = [
        {"agent_model": agent.agent_model, "rank": agent.rank and place(agent.rank)}
        for agent in comparison.agents
    ]
    pairs = [
        {"a": one.a, "b": one.b, **_counts(one.counts), "words": "; ".join(one.words)}
        for one in pair_standings(compared)
    ]
    ranks = table_of(RANKS, ranked)._replace(note=_rank_note(comparison))
    return [ranks, table_of(AGENT_PAIRS, pairs)] if pairs else [ranks]


def task_pairs(
    tasks: Mapping[str, TaskOutcomes], other: Mapping[str, TaskOutcomes], a: str, b: str, planned: int | None
) -> list[PairedTask]:
    """The common tasks of two agents; with a plan also the ones without any trial yet.

    Args:
        tasks, other: the tasks of each side's run; the same for two agents of one run.
        planned: planned trials of each; None: only tasks count of which both sides have trials.
    """
    ours = {task: Attempts(*counts[a]) for task, counts in tasks.items() if a in counts}
    theirs = {task: Attempts(*counts[b]) for task, counts in other.items() if b in counts}
    if planned is None:
        return [PairedTask(ours[task], theirs[task]) for task in ours if task in theirs]
    every = {**ours, **theirs}
    attempts = max((one.planned for one in every.values()), default=1)
    none = Attempts(0, 0, attempts)
    unseen = max(0, planned // attempts - len(every))
    pending = {task: Attempts(0, 0, one.planned) for task, one in every.items()}  # as many as of the other
    paired_tasks = [PairedTask(ours.get(task, one), theirs.get(task, one)) for task, one in pending.items()]
    return paired_tasks + [PairedTask(none, none)] * unseen


def _pair_words(
    a: str, b: str, result: Paired, final: Range | None, *, shuffled: bool, about: str = ""
) -> Iterable[str]:
    """The sentences that hold, strongest first; of nothing: one that says so, and what it is about."""
    said = [*_of_run(a, b, result, final if shuffled or result.ended else None), *_of_ability(a, b, result)]
    if final is not None and not shuffled and not result.ended:
        said.append(
            f"{_in_points(result.difference)} so far, {_ends(final)} in the end, if the order has nothing "
            "to do with difficulty"
        )
    said = said or [
        f"{NOTHING} {a} and {b}{about} yet" if not result.ended else f"{a} and {b}: no difference"
    ]
    if result.uneven:
        said.append(f"{result.uneven} of {result.tasks} tasks have unequal attempts: no test uses them")
    return said


def _of_run(a: str, b: str, result: Paired, final: Range | None) -> Iterable[str]:
    """About this run's final pass rate."""
    reach = result.reachable
    for ahead, behind, sign in ((a, b, 1), (b, a, -1)):
        if reach is not None and not result.ended and min(sign * end for end in reach) > 0:
            yield f"{ahead} can no longer be overtaken by {behind}, unless results are corrected"
        if final is not None and not result.ended and min(sign * final.low, sign * final.high) > 0:
            ends = sorted((sign * final.low, sign * final.high))
            yield (
                f"{ahead} ahead in this run's final pass rate: {_in_points(_times(result.difference, sign))} "
                f"so far, {_ends(Range(low=ends[0], high=ends[1]))} in the end; 95 %, however often you look"
            )


def _of_ability(a: str, b: str, result: Paired) -> Iterable[str]:
    """About tasks like these."""
    for ahead, behind, evidence in ((a, b, result.better), (b, a, result.worse)):
        if not result.ended and Fraction(evidence) >= EITHER:
            yield (
                f"{ahead} better than {behind} on tasks like these: e-value {evidence:.3g}, {EITHER} needed; "
                "95 %, however often you look"
            )
    if result.interval is not None:
        if result.certain:
            ahead = a if result.ahead > result.behind else b
            yield f"{ahead} ahead on tasks like these: sign test p = {result.p_value:.3g}"
        yield (
            f"{a} minus {b}: {_in_points(result.difference)} {_ends(_range_of(result.interval))}; 95 %, "
            "about tasks like these"
        )


def _times(value: float | None, sign: int) -> float | None:
    return None if value is None else sign * value


def _in_points(value: float | None) -> str:
    return "no common result" if value is None else points(value)


def _ends(ends: Range | None) -> str:
    return "" if ends is None else ends_in_points(ends.low, ends.high)


def _range_of(ends: tuple[float, float] | None) -> Range | None:
    return None if ends is None else Range(low=ends[0], high=ends[1])


def _counts(counts: ComparedPair | None) -> dict[str, int]:
    return {} if counts is None else counts.model_dump(include={"wins", "ties", "losses", "unknown"})


def _rank_note(comparison: RunComparison) -> str:
    """What the ranks mean, or why there are none."""
    if comparison.rank_missing is None:
        looks = "by the sign test at the end" if comparison.ended else "however often you look until the end"
        return (
            f"With 95 % probability no agent's true place is outside its range, {looks}, all agents at once."
        )
    return f"No ranks: {MISSING[comparison.rank_missing]}."


# -----------------------------------------------------------------------------
# Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.


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
    rows: Sequence[AnyRow]


def side_of(
    rows: Iterable[AnyRow], agents: Iterable[AgentModelSummary], agent_model: str | None
) -> list[AnyRow]:
    """The trials of one side of a comparison.

    Args:
        rows: all trials of a run.
        agents: the run's, baselines too.
        agent_model: whose trials; None: of all but baselines.
    """
    labels = {a.agent_model for a in agents if not a.baseline} if agent_model is None else {agent_model}
    return [row for row in rows if row.agent_model in labels]


def has_ended(run: ComparedRun, agents: Iterable[AgentModelSummary], agent_model: str | None) -> bool:
    """Whether no trial of one side is missing: intervals and the sign test hold then (inference 7).

    Args:
        run: the side's run, with its tasks.
        agents: the run's, baselines too.
        agent_model: whose trials; None: of all but baselines.
    """
    chosen = [a for a in agents if (not a.baseline if agent_model is None else a.agent_model == agent_model)]
    labels = {agent.agent_model for agent in chosen}
    unknown = any(counts[label][2] for counts in run.tasks.values() for label in labels & counts.keys())
    has_plan = run.run.progress.planned is not None or run.run.status is not None
    return bool(chosen) and has_plan and not unknown and not any(agent.provisional for agent in chosen)


def compare_sides(a: ComparedSide, b: ComparedSide, offset: int, limit: int) -> Comparison:
    """Compare two sides, and say what may be said of them (inference 8).

    Args:
        a, b: the sides; of a named metric that both plans explain, the first one's words count.
        offset, limit: which of the tasks to list; the counts are of all.
    """
    comparison = compare(
        a.rows,
        b.rows,
        ((a.run.run.run_id, a.agent_model), (b.run.run.run_id, b.agent_model)),
        offset,
        limit,
        ended=all(has_ended(side.run, side.agents, side.agent_model) for side in (a, b)),
        readings={**b.run.run.metrics, **a.run.run.metrics},
        without_verdicts={agent.agent_model for agent in (*a.agents, *b.agents) if agent.verdict_trials == 0},
    )
    words = []
    if comparison.differences["pass_rate"].tasks or not comparison.tasks:
        words = between(a.run, b.run, a.agent_model, b.agent_model, ended=comparison.ended)
    return comparison.model_copy(update={"words": words, "in_common": _in_common(comparison)})


def compare(
    a: Iterable[AnyRow],
    b: Iterable[AnyRow],
    names: tuple[Named, Named],
    offset: int,
    limit: int,
    *,
    ended: bool = False,
    readings: Mapping[str, Any] | None = None,
    without_verdicts: Collection[str] = (),
) -> Comparison:
    """Compare two lists of trials.

    Args:
        a, b: the trials of each side.
        names: what the sides are called.
        offset, limit: which of the pairs to list; the counts are of all.
        ended: no trial of either side is missing, see `has_ended`; only then are there intervals.
        readings: named metric to how to read it, as run summaries have it; None: not known.
        without_verdicts: the agent:models that have no pass rate (R31).
    """
    first, second = _by_task(a), _by_task(b)
    both = [task for task in first if task in second]
    side = partial(_side_of, without_verdicts=without_verdicts)
    pairs = [TaskPair(task_id=t[0], tier=t[1], a=side(first[t]), b=side(second[t])) for t in both]
    pairs.sort(key=lambda pair: (-_apart(pair), pair.task_id, pair.tier or ""))
    of_names = _named_metrics(pairs, readings or {})
    differences = {
        metric: _difference(metric, high, pairs, ended) for metric, high in COMPARED_METRICS.items()
    }
    for metric, of in of_names.items():
        says = {"unit": None if of.unit == "1" else of.unit, "label": of.label}
        plain = _difference(metric, of.higher_is_better, pairs, ended)
        differences[metric] = plain.model_copy(update=says)
    judged = [pair for pair in pairs if pair.a.pass_rate is not None and pair.b.pass_rate is not None]
    passed = Counter((passes(pair.a), passes(pair.b)) for pair in judged)
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
        flips=flip_groups(judged, first, second, limit),
        pairs=pairs[listed],
        only_a_tasks=_flipped(judged, passed_by_a=True)[listed],
        only_b_tasks=_flipped(judged, passed_by_a=False)[listed],
        not_in_a=sorted(name_of(task) for task in second if task not in first)[listed],
        not_in_b=sorted(name_of(task) for task in first if task not in second)[listed],
    )


def _apart(pair: TaskPair) -> float:
    """How far the pass rates of both sides are apart; 0 where one is not known."""
    a, b = pair.a.pass_rate, pair.b.pass_rate
    return 0.0 if a is None or b is None else abs(a - b)


def _in_common(sides: Comparison) -> str:
    if sides.tasks and not sides.differences["pass_rate"].tasks:
        return (
            f"{counted(sides.tasks, 'task')} in common, without verdicts; only in A {sides.a.only_here:,}, "
            f"only in B {sides.b.only_here:,}"
        )
    return (
        f"{counted(sides.tasks, 'task')} in common: passed by both {sides.both_passed:,}, by A alone "
        f"{sides.only_a:,}, by B alone {sides.only_b:,}, by neither {sides.neither:,}; "
        f"only in A {sides.a.only_here:,}, only in B {sides.b.only_here:,}"
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


def _by_task(trials: Iterable[AnyRow]) -> Rows:
    by_task: dict[Task, list[AnyRow]] = {}
    for trial in trials:
        by_task.setdefault((trial.task_id, trial.tier), []).append(trial)
    return by_task


def _side_of(trials: Sequence[AnyRow], without_verdicts: Collection[str]) -> Side:
    means = {
        metric: _mean(getattr(t, metric) for t in trials)
        for metric in COMPARED_METRICS
        if metric != "pass_rate"
    }
    names = {name for trial in trials for name in trial.metrics}
    return Side(
        trials=len(trials),
        pass_rate=_mean(
            None if trial.success is None or trial.agent_model in without_verdicts else float(trial.success)
            for trial in trials
        ),
        metrics={name: _mean(trial.metrics.get(name) for trial in trials) for name in names},
        **means,
    )


def _difference(metric: str, high: bool, pairs: Sequence[TaskPair], ended: bool) -> Difference:
    """Over the tasks where both sides know the number, so that like is compared with like.

    The test leaves out tasks with unequal attempts, for the reason that `TaskPair.won` of `inference` gives.
    """
    moved = [b - a for a, b in _values_of(metric, pairs)]
    even = [b - a for a, b in _values_of(metric, [pair for pair in pairs if pair.a.trials == pair.b.trials])]
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
    interval = mean_interval(Clusters.of_sums((1, one) for one in moved))
    return interval and Ends(low=interval.low, high=interval.high)


def _totals(
    name: Named, pairs: Sequence[TaskPair], which: int, only_here: int, named: Iterable[str]
) -> SideTotals:
    means = {
        metric: _mean(values[which] for values in _values_of(metric, pairs)) for metric in COMPARED_METRICS
    }
    return SideTotals(
        run=name[0],
        agent_model=name[1],
        trials=sum((pair.a, pair.b)[which].trials for pair in pairs),
        only_here=only_here,
        metrics={n.removeprefix(NAMED): _mean(v[which] for v in _values_of(n, pairs)) for n in named},
        **means,
    )


def _values_of(metric: str, pairs: Sequence[TaskPair]) -> list[tuple[float, float]]:
    """The values of both sides on the tasks where both know it."""
    values = [(value_of(pair.a, metric), value_of(pair.b, metric)) for pair in pairs]
    return [(a, b) for a, b in values if a is not None and b is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if there is none."""
    numbers = [value for value in values if value is not None]
    return fsum(numbers) / len(numbers) if numbers else None


# -----------------------------------------------------------------------------
# A comparison of two sides as a document: the same on the terminal, in Markdown and in HTML.


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

UNTESTED = "A row has no p if no task that differs has equal attempts."
STILL_OPEN = (
    f"Results or verdicts are missing: there are no intervals, and p holds only with all of them. {UNTESTED}"
)
METHODS = (
    f"p: exact sign test over the tasks that differ and have equal attempts. {UNTESTED} "
    "95 %: interval of the mean difference on tasks like these, clustered by task. "
    "Each row was asked for itself: of 20 equal metrics one looks different."
)


def comparison_document(comparison: Comparison) -> Document:
    """The whole comparison; of tasks those that it lists."""
    return Document(
        title="Two sides on their common tasks",
        facts=[f"A  {_side_words(comparison.a)}", f"B  {_side_words(comparison.b)}"],
        lines=[comparison.in_common, *comparison.words],
        tables=[_metrics(comparison), _flips(comparison), _pairs(comparison), _not_common(comparison)],
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


def _metrics(comparison: Comparison) -> Table:
    rows = list(_metric_rows(comparison))
    return table_of(COMPARED_BOARD, rows)._replace(note=METHODS if comparison.ended else STILL_OPEN)


def _metric_rows(comparison: Comparison) -> Iterable[dict[str, Any]]:
    for metric, difference in comparison.differences.items():
        if difference.tasks:
            column = column_of(metric, difference)
            yield {
                **difference.model_dump(include={"tasks", "a_better", "b_better", "equal"}),
                "metric": column.title if column.outside else metric,
                "a": written(column, value_of(comparison.a, metric)),
                "b": written(column, value_of(comparison.b, metric)),
                "moved": moved(column, difference.mean),
                "interval": interval_of(column, difference) or None,
                "p": None if difference.p_value is None else f"{difference.p_value:.3g}",
            }


def _flips(comparison: Comparison) -> Table:
    rows = [
        {
            **group.model_dump(exclude={"tasks"}),
            "passed_by": f"{group.passed_by.upper()} alone",
            "tasks": _listed(group.tasks, group.count),
        }
        for group in comparison.flips
    ]
    return table_of(FLIPS, rows)


def _pairs(comparison: Comparison) -> Table:
    differing = [pair for pair in comparison.pairs if pair.a.pass_rate != pair.b.pass_rate]
    left = comparison.a_better + comparison.b_better - len(differing)
    rows = [{"task": pair.task_id, "tier": pair.tier, "a": pair.a, "b": pair.b} for pair in differing]
    return table_of(COMPARED_TASKS, rows)._replace(note=f"and {left:,} more (--limit)" if left else "")


def _not_common(comparison: Comparison) -> Table:
    sides = (
        ("A", comparison.not_in_b, comparison.a.only_here),
        ("B", comparison.not_in_a, comparison.b.only_here),
    )
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
