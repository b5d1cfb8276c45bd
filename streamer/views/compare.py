"""Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.

A task of a tier is compared with the same task of the same tier. Each task counts once, whatever its
attempts: of several the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import fsum, isfinite
from typing import Any, NamedTuple

from pydantic import Field

from streamer.client.queries import ComparedRun
from streamer.schemas.base import Message, task_key
from streamer.schemas.events import NAMED, BoardMetric
from streamer.schemas.summaries import AgentModelSummary, ComparedPair, PairEvidence, Rank, RunComparison
from streamer.statistics.ability import Clusters, mean_interval, tasks_are_fair
from streamer.statistics.exact import quotient, sign_test
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import (
    LEAST_TASKS_OF_A_MEAN,
    Attempts,
    CommonTasks,
    Outcomes,
    Paired,
    PairedTask,
    common_tasks,
    outcomes_of,
    paired,
)
from streamer.text import UNSEEN, counted, ends_in_points, percent, points
from streamer.views.cells import place, text
from streamer.views.columns import ALIKE, COMPARED, Board, Column, named, read_as
from streamer.views.models import (
    DIFFERENT_TASKS,
    AnyRow,
    Comparison,
    Difference,
    Ends,
    Rows,
    Side,
    SideTotals,
    Task,
    TaskPair,
    flip_groups,
    name_of,
    passes,
)
from streamer.views.tables import Document, Table, table_of

# -----------------------------------------------------------------------------
# Two agents of a run as the worker counted them, with what may be said of them (inference 7 and 8).
#
# The numbers come from `inference.paired`; here they get the words that every surface uses.


NOTHING = "Nothing separates"
"""How the words of two agents begin that are not told apart yet."""

EITHER = 2 / ALPHA
"""Evidence that shows one of two directions, whichever it is, however often you look."""

UNDECIDED = PairEvidence(better=1.0, worse=1.0, ahead=None)


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
    uneven: int = Field(ge=0, description="Tasks with unequal attempts: no test uses them.")
    difference: float | None = Field(
        description="Of the pass rates on the tasks with results of both, so far; null: no such task."
    )
    final: Range | None = Field(
        description="Final difference in this run, 95 %, however often you look; null: none."
    )
    reachable: Range | None = Field(description="Differences that are still possible; null: no plan.")
    better: float = Field(ge=1, description="As `evidence` of `counts`; 1: none.")
    worse: float = Field(ge=1, description="As `evidence` of `counts`; 1: none.")
    ended: bool = Field(description="True if no trial is missing.")
    interval: Range | None = Field(
        description="On tasks like these, 95 %, clustered; null before the end, and with under five tasks."
    )
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Exact two-sided sign test; null: trials may still come, or attempts are nowhere equal.",
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
        pair_standing(compared, comparison, pair, labels[pair.a], labels[pair.b])
        for pair in comparison.pairs
        if only is None or {labels[pair.a], labels[pair.b]} == set(only)
    ]


def pair_standing(
    run: ComparedRun, comparison: RunComparison, counts: ComparedPair, a: str, b: str
) -> PairStanding:
    """Two agents of one comparison."""
    sides = (outcomes_of(run.tasks, [label], comparison.planned) for label in (a, b))
    over = comparison.ended or run.run.status is not None
    result = paired(
        list(common_tasks(*sides).pairs.values()), complete=comparison.planned is not None or over, over=over
    )
    evidence = counts.evidence or UNDECIDED
    ranks = [comparison.agents[side].rank for side in (counts.a, counts.b)]
    final = None
    if counts.final is not None and counts.pairs:
        low, high = (quotient(end, counts.pairs) for end in (counts.final.low, counts.final.high))
        final = Range(low=low, high=high)
    is_shuffled = comparison.order_kind == "shuffled"
    return PairStanding.like(
        result,
        a=a,
        b=b,
        counts=counts,
        better=evidence.better,
        worse=evidence.worse,
        final=final,
        reachable=_range_of(result.reachable),
        interval=_range_of(result.interval),
        words=list(_pair_words(a, b, result, final, evidence, ranks, shuffled=is_shuffled)),
    )


def between(
    a: ComparedRun, b: ComparedRun, a_agent: str | None, b_agent: str | None, result: Paired
) -> list[str]:
    """What may be said of an agent of one run and an agent of the same or another run; [] of several agents.

    Two agents of one run have the words of their pair. Across runs there is no final difference.

    Args:
        a, b: the runs, as `StateReader.comparison` gives them.
        a_agent, b_agent: agent:model of each; None: the only one that is no baseline.
        result: both, compared on the tasks that both have begun.
    """
    ours, theirs = a_agent or _only_agent(a), b_agent or _only_agent(b)
    if ours is None or theirs is None:
        return []
    if a.run.run_id == b.run.run_id:
        return [said for pair in pair_standings(a, (ours, theirs)) for said in pair.words]
    names = (f"{ours} of {a.run.run_id}", f"{theirs} of {b.run.run_id}")
    return list(_pair_words(*names, result, None, about=" on tasks like these"))


def _only_agent(run: ComparedRun) -> str | None:
    labels = {label for outcomes in run.tasks.values() for label in outcomes}
    return labels.pop() if len(labels) == 1 else None


def _pair_words(
    a: str,
    b: str,
    result: Paired,
    final: Range | None,
    evidence: PairEvidence = UNDECIDED,
    ranks: Sequence[Rank | None] = (None, None),
    *,
    shuffled: bool = False,
    about: str = "",
) -> Iterable[str]:
    """The sentences that hold, strongest first; of nothing: one that says so, and what it is about."""
    said = [
        *_of_run(a, b, result, final if shuffled or result.ended else None),
        *_of_ability(a, b, result, evidence),
    ]
    if final is not None and not shuffled and not result.ended:
        said.append(
            f"{_so_far(result)}, {_ends(final)} {_in_the_end(result)}, if the order has nothing to do "
            "with difficulty"
        )
    said = said or [*_of_places(a, b, ranks)]
    said = said or [
        f"{a} and {b}: no interval, so nothing is shown"
        if result.ended
        else f"{NOTHING} {a} and {b}{about}" + ("" if result.over else " yet")
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
            low, high = sorted((sign * final.low, sign * final.high))
            said = f"{_so_far(result, sign)}, {_ends(Range(low=low, high=high))} {_in_the_end(result)}"
            yield f"{ahead} ahead in this run's final pass rate: {said}; 95 %, however often you look"


def _so_far(result: Paired, sign: int = 1) -> str:
    points = _in_points(_times(result.difference, sign))
    return f"{points} in the results that came" if result.over else f"{points} so far"


def _in_the_end(result: Paired) -> str:
    return "had all of them come" if result.over else "in the end"


def _of_ability(a: str, b: str, result: Paired, evidence: PairEvidence) -> Iterable[str]:
    """About tasks like these. Evidence puts ahead only whom the mean puts ahead, too."""
    for side, ahead, behind, shown in (("a", a, b, evidence.better), ("b", b, a, evidence.worse)):
        if not result.ended and side == evidence.ahead and shown >= EITHER:
            yield (
                f"{ahead} better than {behind} on tasks like these: evidence {shown:.3g}, {EITHER} needed; "
                "95 %, however often you look"
            )
    if result.certain:
        ahead = a if result.ahead > result.behind else b
        yield f"{ahead} ahead on tasks like these: sign test p = {result.p_value:.3g}"
    if result.interval is not None:
        yield (
            f"{a} minus {b}: {_in_points(result.difference)} {_ends(_range_of(result.interval))}; 95 %, "
            "about tasks like these"
        )


def _of_places(a: str, b: str, ranks: Sequence[Rank | None]) -> Iterable[str]:
    """What the places of two agents show; agents between them may separate them before their own pairs do."""
    for (ahead, first), (behind, second) in permutations(zip((a, b), ranks, strict=True)):
        if first and second and first.worst < second.best:
            yield (
                f"{ahead} ahead of {behind} among all agents: place {place(first)} against {place(second)}; "
                "95 %, all agents at once"
            )


def _times(value: float | None, sign: int) -> float | None:
    return None if value is None else sign * value


def _in_points(value: float | None) -> str:
    return "no common result" if value is None else points(value)


def _ends(ends: Range | None) -> str:
    return "" if ends is None else ends_in_points(ends.low, ends.high)


def _range_of(ends: tuple[float, float] | None) -> Range | None:
    return None if ends is None else Range(low=ends[0], high=ends[1])


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
    """Whether nothing more comes of one side: intervals and the sign test hold then (inference 7).

    A run without a plan is taken as complete as it stands, once none of its trials is in flight.

    Args:
        run: the side's run, with its tasks.
        agents: the run's, baselines too.
        agent_model: whose trials; None: of all but baselines.
    """
    chosen = _chosen(agents, agent_model)
    if not chosen or run.run.status is not None:
        return bool(chosen)
    labels = {agent.agent_model for agent in chosen}
    unknown = any(counts[label][2] for counts in run.tasks.values() for label in labels & counts.keys())
    is_open = any(one.provisional or one.in_flight for one in chosen)
    return run.run.progress.plan_complete and not unknown and not is_open


def _chosen(agents: Iterable[AgentModelSummary], agent_model: str | None) -> list[AgentModelSummary]:
    return [a for a in agents if (not a.baseline if agent_model is None else a.agent_model == agent_model)]


def compare_sides(
    a: ComparedSide, b: ComparedSide, offset: int, limit: int, *, any_tasks: bool = False
) -> Comparison:
    """Compare two sides, and say what may be said of them (inference 8).

    Args:
        a, b: the sides; of a named metric that both plans explain, the first one's words count.
        offset, limit: which of the tasks to list; the counts are of all.
        any_tasks: judge the common tasks, however they came about.
    """
    ours, theirs = _outcomes(b), _outcomes(a)
    tasks = common_tasks(ours, theirs)
    refused = _not_comparable(a, b, tasks) if tasks.differ and not any_tasks else None
    over = refused is None and all(has_ended(side.run, side.agents, side.agent_model) for side in (a, b))
    counted_pairs = list(tasks.pairs.values())
    rows, other_rows = _by_key(b.rows), _by_key(a.rows)
    tested = [
        pair if pair.even else _in_pairs(pair, rows.get(str(task), []), other_rows.get(str(task), []))
        for task, pair in tasks.pairs.items()
    ]
    result = paired(counted_pairs, over=over, tested=tested)
    waiting = any(one.grade_provisional for side in (a, b) for one in _chosen(side.agents, side.agent_model))
    comparison = compare(
        a.rows,
        b.rows,
        ((a.run.run.run_id, a.agent_model), (b.run.run.run_id, b.agent_model)),
        offset,
        limit,
        ended=over,
        readings={**b.run.run.metrics, **a.run.run.metrics},
        without_verdicts={agent.agent_model for agent in (*a.agents, *b.agents) if agent.verdict_trials == 0},
        rates=(result, counted_pairs),
        unscored=waiting,
    )
    words = []
    if refused is None and (comparison.differences["pass_rate"].tasks or not comparison.tasks):
        words = between(b.run, a.run, b.agent_model, a.agent_model, result)
    words += [] if refused is None else [f"not comparable: {refused}"]
    words += [_of_tasks(ours, theirs, tasks)] if tasks.differ else []
    words += _without_plan((a, b))
    words += _without_results(result, waiting) if over else []
    stated = {"words": words, "in_common": _in_common(comparison), "not_comparable": refused}
    return comparison.model_copy(update=stated)


def _outcomes(side: ComparedSide) -> Outcomes:
    chosen = _chosen(side.agents, side.agent_model)
    labels = [agent.agent_model for agent in chosen]
    planned = sum(agent.runs_planned or 0 for agent in chosen)
    tasks = side.run.tasks
    if chosen and all(agent.verdict_trials == 0 for agent in chosen):  # only the trials name the tasks (R31)
        tasks = {task: {labels[0]: (0, 0, len(rows))} for task, rows in _by_key(side.rows).items()}
    return outcomes_of(tasks, labels, planned)


def _not_comparable(a: ComparedSide, b: ComparedSide, tasks: CommonTasks) -> str | None:
    """Why the common tasks are no fair sample; None: they are."""
    starts = [at.timestamp() if at else None for at in (b.run.run.started_at, a.run.run.started_at)]
    return None if tasks_are_fair(len(tasks.pairs), tasks.total, starts) else DIFFERENT_TASKS


def _of_tasks(ours: Outcomes, theirs: Outcomes, tasks: CommonTasks) -> str:
    """How many tasks are common, and how often each side passes them and all of its tasks."""
    sides = zip(*tasks.pairs.values(), strict=True) if tasks.pairs else ((), ())
    stated = [
        f"{name} passes {_share(common)} of these and {_share(side.tasks.values())} of all its {of:,}"
        for name, common, side, of in zip("BA", sides, (ours, theirs), tasks.total, strict=True)
    ]
    return f"{counted(len(tasks.pairs), 'task')} in common: {'; '.join(reversed(stated))}"


def _share(trials: Iterable[Attempts]) -> str:
    known, passed, _ = map(sum, zip((0, 0, 0), *trials, strict=True))
    return percent(passed / known) if known else UNSEEN


def _without_plan(sides: Iterable[ComparedSide]) -> list[str]:
    """One line for each run that counts as complete because nothing says what is missing."""
    runs = {side.run.run.run_id: side.run.run for side in sides}
    return [
        f"{run_id} has no plan and no end: it counts as complete as it stands"
        for run_id, run in runs.items()
        if run.status is None and run.progress.planned is None and run.progress.plan_complete
    ]


def _without_results(result: Paired, unscored: bool) -> Iterable[str]:
    """What two sides lack that have ended, and which numbers it touches."""
    if result.open:
        yield (
            f"{result.open:,} of {counted(result.tasks, 'task')} lack results: these count both ways in "
            "interval and p of pass rates, and other means have no interval"
        )
    if unscored:
        yield "trials wait for a judge's score: composite_score has no interval and no p"


def _in_pairs(pair: PairedTask, ours: Sequence[AnyRow], theirs: Sequence[AnyRow]) -> PairedTask:
    """Both sides of a task with unequal attempts: those that both have, and those that both may still get."""
    rows = _matched(ours, theirs)
    both = min(pair.ours.planned, pair.theirs.planned) - len(rows[0])
    missing = min(both, pair.ours.unknown + pair.theirs.unknown)
    mine, other = (Attempts(len(side), sum(row.success is True for row in side), missing) for side in rows)
    return PairedTask(mine, other)


def _matched(ours: Sequence[AnyRow], theirs: Sequence[AnyRow]) -> tuple[list[AnyRow], list[AnyRow]]:
    """The trials of a task that are the same attempt on both sides, in the same order."""
    numbered, other = _by_number(ours), _by_number(theirs)
    both = [one for one in numbered if one in other]
    return [numbered[one] for one in both], [other[one] for one in both]


def _by_number(rows: Sequence[AnyRow]) -> dict[tuple[str | None, int, int], AnyRow]:
    """The trials of a task by attempt; repeats that have only names get numbers as in `pairings_of`."""
    by_number: dict[tuple[str | None, int, int], AnyRow] = {}
    is_named = any(row.shard for row in rows) and all(row.attempt == 1 for row in rows)
    seen: Counter[tuple[str | None, int]] = Counter()
    for row in sorted(rows, key=lambda row: row.shard):
        repeat = seen[row.subtest, row.attempt]
        seen[row.subtest, row.attempt] += 1
        by_number[row.subtest, *((1 + repeat, 0) if is_named else (row.attempt, repeat))] = row
    return by_number


def _by_key(rows: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    by_key: dict[str, list[AnyRow]] = {}
    for row in rows:
        by_key.setdefault(task_key(row.tier, row.subtest, row.task_id), []).append(row)
    return by_key


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
    rates: tuple[Paired, Sequence[PairedTask]] | None = None,
    unscored: bool = False,
) -> Comparison:
    """Compare two lists of trials.

    Args:
        a, b: the trials of each side.
        names: what the sides are called.
        offset, limit: which of the pairs to list; the counts are of all.
        ended: nothing more comes of either side, see `has_ended`; only then are there intervals and p.
        readings: named metric to how to read it, as run summaries have it; None: not known.
        without_verdicts: the agent:models that have no pass rate (R31).
        rates: what the pass rates say, B's less A's, and their tasks; None: the trials are all there are.
        unscored: scores of a judge may still come, so composites have neither interval nor p.
    """
    first, second = _by_task(a), _by_task(b)
    both = [task for task in first if task in second]
    side = partial(_side_of, without_verdicts=without_verdicts)
    pairs = [TaskPair(task_id=t[0], tier=t[1], a=side(first[t]), b=side(second[t])) for t in both]
    matched = {task: _matched(first[task], second[task]) for task in both}
    if rates is None:
        tested = [PairedTask(_attempts(theirs), _attempts(ours)) for ours, theirs in matched.values()]
        every = [PairedTask(_attempts(second[task]), _attempts(first[task])) for task in both]
        rates = paired(every, over=ended, tested=tested), every
    planned = [sum(one.planned for one in trials) for trials in zip(*rates[1], strict=True)] or [0, 0]
    is_whole = planned[1] <= sum(p.a.trials for p in pairs) and planned[0] <= sum(p.b.trials for p in pairs)
    even = [
        pair
        if pair.a.trials == pair.b.trials
        else pair.model_copy(update={"a": side(rows[0]), "b": side(rows[1])})
        for pair in pairs
        for rows in [matched[pair.task_id, pair.tier]]
        if rows[0]
    ]
    pairs.sort(key=lambda pair: (-_apart(pair), pair.task_id, pair.tier or ""))
    of_names = _named_metrics(pairs, readings or {})
    difference = partial(_difference, pairs=pairs, even=even if ended else [], whole=ended and is_whole)
    differences = {metric: difference(metric, high) for metric, high in COMPARED_METRICS.items()}
    if unscored:
        open_ = {"interval": None, "p_value": None}
        differences["composite_score"] = differences["composite_score"].model_copy(update=open_)
    for metric, of in of_names.items():
        says = {"unit": None if of.unit == "1" else of.unit, "label": of.label}
        differences[metric] = difference(metric, of.higher_is_better).model_copy(update=says)
    totals = (
        _totals(names[0], pairs, 0, len(first) - len(both), of_names),
        _totals(names[1], pairs, 1, len(second) - len(both), of_names),
    )
    if ended and differences["pass_rate"].tasks:
        differences["pass_rate"] = differences["pass_rate"].model_copy(update=_at_end(rates[0]))
        totals = (
            totals[0].model_copy(update={"pass_rate": _rate(rates[1], 1)}),
            totals[1].model_copy(update={"pass_rate": _rate(rates[1], 0)}),
        )
    judged = [pair for pair in pairs if pair.a.pass_rate is not None and pair.b.pass_rate is not None]
    passed = Counter((passes(pair.a), passes(pair.b)) for pair in judged)
    listed = slice(offset, offset + limit)
    return Comparison(
        a=totals[0],
        b=totals[1],
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


def _attempts(rows: Sequence[AnyRow]) -> Attempts:
    return Attempts(len(rows), sum(row.success is True for row in rows))


def _at_end(result: Paired) -> dict[str, Any]:
    """What the pass rates of all trials say in place of the mean over tasks."""
    ends = result.interval
    return {
        "mean": result.difference,
        "interval": ends and Ends(low=ends.low, high=ends.high),
        "p_value": result.p_value,
    }


def _rate(pairs: Iterable[PairedTask], which: int) -> float | None:
    """The pass rate of one side over all trials of the tasks where both have results."""
    trials = [pair[which] for pair in pairs if pair.ours.known and pair.theirs.known]
    known = sum(one.known for one in trials)
    return sum(one.passed for one in trials) / known if known else None


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


def _difference(
    metric: str, high: bool, *, pairs: Sequence[TaskPair], even: Sequence[TaskPair], whole: bool
) -> Difference:
    """Over the tasks where both sides know the number, so that like is compared with like.

    Args:
        pairs: the tasks.
        even: the same with the attempts alone that both sides have, for the sign test; []: nothing is tested.
        whole: no trial is missing; only then there is an interval.
    """
    moved = [b - a for a, b in _values_of(metric, pairs)]
    tested = [b - a for a, b in _values_of(metric, even)]
    up, down = sum(one > 0 for one in moved), sum(one < 0 for one in moved)
    return Difference(
        tasks=len(moved),
        mean=_mean(moved),
        interval=_interval(moved) if whole else None,
        higher_is_better=high,
        a_better=down if high else up,
        b_better=up if high else down,
        equal=len(moved) - up - down,
        p_value=sign_test(sum(one > 0 for one in tested), sum(one < 0 for one in tested)) if tested else None,
    )


def _interval(moved: Sequence[float]) -> Ends | None:
    """The interval of the mean of the tasks' differences; each task is a cluster (inference 6)."""
    if len(moved) < LEAST_TASKS_OF_A_MEAN or not all(map(isfinite, moved)):
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
        Column("interval", "95 %", "number", ("interval",), hint=OF_INTERVAL, rank=2, about=ALIKE),
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

STILL_OPEN = "No intervals and no p: trials are missing, or the sides ran different tasks."
METHODS = (
    "p: exact sign test over the tasks that differ, on the attempts that both sides have. 95 %: interval of "
    "the difference on tasks like these, clustered by task, of pass rates from 5 tasks on and of other means "
    "from 10. Each row was asked for itself: of 20 equal metrics one looks different."
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
