"""Two runs or two agents, on the tasks that both have done. Pure; the page and `streamer compare` use it.

A task of a tier is compared with the same task of that tier. Of several attempts the mean is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite
from typing import Any, Literal

from pydantic import Field

from streamer.client.queries import ComparedRun
from streamer.schemas.base import Message, task_key, value_at
from streamer.schemas.events import NAMED
from streamer.schemas.provenance import Made
from streamer.schemas.summaries import AgentModelSummary, ComparedPair, RunComparison, TaskOutcomes
from streamer.statistics.ability import Clusters, mean_interval
from streamer.statistics.exact import mean_of, nearest_float, quotient, sign_test
from streamer.statistics.pairs import (
    LEAST_TASKS_OF_A_MEAN,
    Attempts,
    CommonTasks,
    Outcomes,
    Paired,
    PairedTask,
    common_tasks,
    grouped,
    outcomes_of,
    paired,
    pairings_of,
)
from streamer.text import counted, ends_in_points, percent, points
from streamer.views.cells import text
from streamer.views.columns import ALIKE, COMPARED, Board, Column, Write, named, read_as
from streamer.views.decide.comparable import (
    UNDECIDED,
    Comparability,
    comparable,
    counts_as_complete,
    in_two_units,
    pair_words,
    read_differently,
)
from streamer.views.models import (
    AnyRow,
    Comparison,
    Difference,
    Ends,
    FlipGroup,
    Side,
    SideTotals,
    TaskPair,
    name_of,
    stated_mode,
)
from streamer.views.tables import Document, table_of

# -----------------------------------------------------------------------------
# Two agents of a run as the worker counted them, with what may be said of them (inference 7 and 8).


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
    final: Ends | None = Field(
        description="Final difference in this run, 95 %, however often you look; null: none."
    )
    reachable: Ends | None = Field(description="Differences that are still possible; null: no plan.")
    better: float = Field(ge=1, description="As `evidence` of `counts`; 1: none.")
    worse: float = Field(ge=1, description="As `evidence` of `counts`; 1: none.")
    ended: bool = Field(description="True if no trial is missing.")
    interval: Ends | None = Field(
        description="On tasks like these, 95 %, clustered; null before the end, and with under five tasks."
    )
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Exact two-sided sign test; null: trials may still come, or attempts are nowhere equal.",
    )
    words: list[str] = Field(description="What may be said, one sentence each; names are not escaped.")


def pair_standings(compared: ComparedRun, only: Collection[str] | None = None) -> list[PairStanding]:
    """Every two agents of a run, in the order of its comparison; with `only` the pair of these two labels."""
    comparison = compared.comparison
    if comparison is None:
        return []
    labels = [agent.agent_model for agent in comparison.agents]
    return [
        _standing(compared, comparison, pair)
        for pair in comparison.pairs
        if only is None or {labels[pair.a], labels[pair.b]} == set(only)
    ]


def _standing(run: ComparedRun, comparison: RunComparison, counts: ComparedPair) -> PairStanding:
    agents = [comparison.agents[side] for side in (counts.a, counts.b)]
    a, b = labels = [agent.agent_model for agent in agents]
    over = comparison.ended or run.run.status is not None
    sides = [outcomes_of(run.tasks, [label], comparison.planned) for label in labels]
    tasks = common_tasks(*sides).pairs
    made = Comparability()
    if counts.left_out:
        known = [[task for task, of in side.tasks.items() if of.known] for side in sides]
        both = zip(known, labels, strict=True)
        ours, theirs = (Made.by(run.run, these, run.provenance, [label]) for these, label in both)
        made = comparable(ours, theirs, (a, b), planned=0 if over else len(tasks))
    tasks = {} if made.refused else {task: of for task, of in tasks.items() if task not in made.left_out}
    result = paired(list(tasks.values()), complete=comparison.planned is not None or over, over=over)
    evidence, final = counts.evidence or UNDECIDED, None
    if counts.final is not None and counts.pairs:
        final = Ends.of(quotient(end, counts.pairs) for end in (counts.final.low, counts.final.high))
    why = "; ".join(dict.fromkeys(made.refused.values()))
    words = [f"not comparable: {why}"] if why else made.words
    if not why:
        ranks = [agent.rank for agent in agents]
        shuffled = comparison.order_kind == "shuffled"
        words = pair_words(a, b, result, final, evidence, ranks=ranks, shuffled=shuffled) + words
    return PairStanding.like(
        result,
        a=a,
        b=b,
        counts=counts,
        better=evidence.better,
        worse=evidence.worse,
        final=final,
        reachable=Ends.of(result.reachable),
        interval=Ends.of(result.interval),
        words=words,
    )


def between(
    a: ComparedRun,
    b: ComparedRun,
    a_agent: str | None,
    b_agent: str | None,
    result: Paired,
    *,
    every_task: bool = False,
) -> list[str]:
    """What may be said of an agent of one run and an agent of the same or another run; [] of several agents.

    Two agents of one run have the words of their pair, unless `every_task` also judges the tasks that the
    pair leaves out, or the run counts as complete without a plan. Across runs there is no final difference.
    """
    ours, theirs = a_agent or _only_agent(a), b_agent or _only_agent(b)
    if ours is None or theirs is None:
        return []
    if a.run.run_id == b.run.run_id:
        pairs = pair_standings(a, (ours, theirs))
        leaves_out = any(pair.counts and pair.counts.left_out for pair in pairs)
        if (every_task and leaves_out) or (result.ended and not all(pair.ended for pair in pairs)):
            return pair_words(ours, theirs, result)
        return [said for pair in pairs for said in pair.words]
    names = (f"{ours} of {a.run.run_id}", f"{theirs} of {b.run.run_id}")
    return pair_words(*names, result, about=" on tasks like these")


def _only_agent(run: ComparedRun) -> str | None:
    labels = {label for outcomes in run.tasks.values() for label in outcomes}
    return labels.pop() if len(labels) == 1 else None


# -----------------------------------------------------------------------------
# Two sides: the trials of a run or of one of its agents, compared on the tasks that both have done.


Task = tuple[str, str | None]
"""Task id and tier."""

COMPARED_METRICS = {column.name: column.sort == "greatest" for column in COMPARED.columns}
"""The compared metrics -> whether higher is better."""


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison: the trials of one agent:model of a run, or of all but baselines.

    `agents` and `trials` are all that the run has. `left_out` names tasks as summaries do.
    """

    run: ComparedRun
    agents: Sequence[AgentModelSummary]
    agent_model: str | None
    trials: Sequence[AnyRow]
    left_out: frozenset[str] = frozenset()

    @cached_property
    def chosen(self) -> list[AgentModelSummary]:
        label = self.agent_model
        return [a for a in self.agents if (not a.baseline if label is None else a.agent_model == label)]

    @cached_property
    def planned(self) -> dict[str, int]:
        """Planned trials of each agent, also of one that has not begun; 0 without a plan.

        The ten trials a tier that R26 expects are no plan.
        """
        declared, comparison = self.run.run.progress.planned is not None, self.run.comparison
        planned = {one.agent_model: declared * (one.runs_planned or 0) for one in self.chosen}
        each = max(planned.values(), default=0)
        others = comparison.agents if each and comparison and self.agent_model is None else ()
        return planned | {one.agent_model: each for one in others if one.agent_model not in planned}

    @property
    def labels(self) -> Collection[str]:
        return self.planned.keys()

    @cached_property
    def rows(self) -> list[AnyRow]:
        rows = [row for row in self.trials if row.agent_model in self.labels]
        return [row for row in rows if _key_of(row) not in self.left_out] if self.left_out else rows

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: intervals and the sign test hold then (inference 7).

        A run without a plan is taken as complete as it stands, once none of its trials is in flight.
        """
        run = self.run.run
        if not self.chosen or run.status is not None:
            return bool(self.chosen)
        unknown = any(
            counts[label][2] for counts in self.run.tasks.values() for label in counts.keys() & self.labels
        )
        is_open = any(one.in_flight or one.trials < self.planned[one.agent_model] for one in self.chosen)
        is_whole = run.progress.plan_complete and len(self.planned) == len(self.chosen)
        return is_whole and not unknown and not is_open

    @cached_property
    def outcomes(self) -> Outcomes:
        """Its trials by task; without verdicts only the trials name the tasks (R31)."""
        planned, tasks = sum(self.planned.values()), self.run.tasks
        if self.chosen and all(agent.verdict_trials == 0 for agent in self.chosen):
            tasks = {}
        every = outcomes_of(self._with_missing(self._with_numeric(tasks)), self.labels, planned)
        compared = {task: one for task, one in every.tasks.items() if task not in self.left_out}
        return every._replace(tasks=compared) if self.left_out else every

    def _with_numeric(self, tasks: Mapping[str, TaskOutcomes]) -> dict[str, TaskOutcomes]:
        """The trials of each task, where those that have numbers alone are unknown (R31).

        A run's own tasks leave out baselines (R4).
        """
        baselines = {one.agent_model for one in self.chosen if one.baseline}
        rows = (row for row in self.rows if row.success is None or row.agent_model in baselines)
        every = dict(tasks)
        for row in rows:
            task, label, judged = _key_of(row), row.agent_model, row.success is not None
            known, passed, unknown = every.get(task, {}).get(label, (0, 0, 0))
            trials = known + judged, passed + (row.success is True), unknown + (not judged)
            every[task] = {**every.get(task, {}), label: trials}
        return every

    def _with_missing(self, tasks: Mapping[str, TaskOutcomes]) -> dict[str, TaskOutcomes]:
        """The trials of each task of the side, where each agent also misses those that it has not begun.

        Where an agent has no verdicts, other attempts at a task are not known to be planned before they come.
        """
        every = {task: dict(of) for task, of in tasks.items() if of.keys() & self.labels}
        numeric = {one.agent_model for one in self.chosen if one.verdict_trials == 0}
        most = 0
        for label, whole in self.planned.items():
            counts = {task: of.get(label, (0, 0, 0)) for task, of in every.items()}
            planned = {task: known + unknown for task, (known, _, unknown) in counts.items()}
            most = max(planned.values(), default=0) or most
            short = {task: most - of for task, of in planned.items() if not of or label in numeric}
            if sum(short.values()) <= whole - sum(planned.values()):
                for task, more in short.items():
                    known, passed, unknown = counts[task]
                    every[task][label] = known, passed, unknown + more
        return every

    @cached_property
    def waiting(self) -> frozenset[tuple[str, str]]:
        """The tasks and agents with more trials than verdicts: these come later, or never (inference 3)."""
        trials = Counter((_key_of(row), row.agent_model) for row in self.rows)
        known = {(task, label): of[0] for task, row in self.run.tasks.items() for label, of in row.items()}
        return frozenset(one for one, many in trials.items() if known.get(one, many) < many)

    def waits(self, row: AnyRow) -> bool:
        """Whether a trial waits for its verdict, and is neither passed nor failed (R31)."""
        could_wait = row.resolved is None and stated_mode(row.failure_mode) is None
        return could_wait and (_key_of(row), row.agent_model) in self.waiting

    @property
    def made(self) -> Made:
        """What its results were made with, at each task that has some."""
        tasks = [task for task in self.outcomes.tasks if task in self.by_key]
        return Made.by(self.run.run, tasks, self.run.provenance, self.labels)

    @cached_property
    def by_key(self) -> dict[str, list[AnyRow]]:
        """The trials of each task as summaries name it."""
        return grouped((_key_of(row), row) for row in self.rows)

    @cached_property
    def by_task(self) -> dict[Task, list[AnyRow]]:
        """The trials of each task of a tier."""
        return grouped(((row.task_id, row.tier), row) for row in self.rows)


def _key_of(row: AnyRow) -> str:
    return task_key(row.tier, row.subtest, row.task_id)


@dataclass(frozen=True)
class _Common:
    """A common task: the trials of A and of B, and their means, named metrics as `metrics/NAME`."""

    task: Task
    rows: tuple[Sequence[AnyRow], Sequence[AnyRow]]
    sides: tuple[ComparedSide, ComparedSide]
    without_verdicts: Collection[str]

    @cached_property
    def means(self) -> list[dict[str, float]]:
        both = zip(self.rows, self.sides, strict=True)
        return [_means(rows, side, self.without_verdicts) for rows, side in both]

    def values(self, metric: str) -> tuple[float, float] | None:
        """The means of both sides; None where one does not know the metric."""
        a, b = self.means
        return (a[metric], b[metric]) if metric in a and metric in b else None

    @property
    def passed(self) -> tuple[bool, bool]:
        """Whether A passes it, and whether B does: in more than half of a side's trials."""
        a, b = (means.get("pass_rate", 0.0) > 0.5 for means in self.means)
        return a, b

    @property
    def place(self) -> tuple[float, str, str]:
        """The most different pass rates come first."""
        a, b = self.values("pass_rate") or (0.0, 0.0)
        return -abs(a - b), self.task[0], self.task[1] or ""

    def shown(self) -> TaskPair:
        sides = zip(self.rows, self.means, strict=True)
        a, b = (Side(trials=len(rows), **_fields(means)) for rows, means in sides)
        return TaskPair(task_id=self.task[0], tier=self.task[1], a=a, b=b)


def _means(
    trials: Iterable[AnyRow], side: ComparedSide, without_verdicts: Collection[str]
) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for trial in trials:
        known = {metric: getattr(trial, metric) for metric in COMPARED_METRICS if metric != "pass_rate"}
        known |= {NAMED + name: value for name, value in trial.metrics.items()}
        if trial.agent_model not in without_verdicts and not side.waits(trial):
            known["pass_rate"] = trial.success
        for metric, value in known.items():
            if value is not None:
                values.setdefault(metric, []).append(value)
    return {metric: mean_of(of) for metric, of in values.items()}


def _fields(means: Mapping[str, float | None]) -> dict[str, Any]:
    named = {metric.removeprefix(NAMED): of for metric, of in means.items() if metric.startswith(NAMED)}
    return {metric: means.get(metric) for metric in COMPARED_METRICS} | {"metrics": named}


def compare_sides(
    a: ComparedSide, b: ComparedSide, offset: int, limit: int, allowed: Collection[str] = ()
) -> Comparison:
    """Compare two sides, and say what may be said of them (inference 8).

    `offset` and `limit` choose the listed tasks; the counts are of all. `allowed` names fields of provenance
    that may differ (R36), and `tasks`. Where both plans explain a metric, the first side's words count.
    """
    awaited = None in (a.run.run.status, b.run.run.status)  # else tasks without a name never come
    both = common_tasks(b.outcomes, a.outcomes).pairs
    planned = sum(awaited or isinstance(task, str) for task in both)
    made = comparable(a.made, b.made, allowed=allowed, planned=planned)
    a, b = (replace(side, left_out=made.left_out) if made.left_out else side for side in (a, b))
    tasks = common_tasks(b.outcomes, a.outcomes)
    starts = [at.timestamp() if at else None for at in (b.run.run.started_at, a.run.run.started_at)]
    if tasks.differ and all(tasks.total) and "tasks" not in allowed:
        made = made.of_tasks(len(tasks.pairs), tasks.total, starts)
    over = not made.refused and a.ended and b.ended
    tested = [pair if pair.even else _in_pairs(pair, str(task), (b, a)) for task, pair in tasks.pairs.items()]
    rates = paired(list(tasks.pairs.values()), over=over, tested=tested)
    unscored = any(one.grade_provisional for one in (*a.chosen, *b.chosen))
    common, even = _common_of(a, b)
    readings = {**b.run.run.metrics, **a.run.run.metrics}
    whole = over and _is_whole(common, tasks)
    plans = {NAMED + name: (of, b.run.run.metrics.get(name)) for name, of in a.run.run.metrics.items()}
    said = {
        part: {name: [value_at(of, (part,)) for of in both] for name, both in plans.items()}
        for part in ("direction", "unit")
    }
    two_units = {name: why for name, of in said["unit"].items() if (why := in_two_units(name, of))}
    differences = _differences(common, even if over else [], readings, whole=whole)
    differences = {name: of for name, of in differences.items() if name not in two_units}
    if unscored:
        scores = differences["composite_score"]
        differences["composite_score"] = scores.model_copy(update={"interval": None, "p_value": None})
    passes = differences["pass_rate"]
    at_end = over and passes.tasks > 0
    if at_end:
        rated = {"mean": rates.difference, "interval": Ends.of(rates.interval), "p_value": rates.p_value}
        passes = differences["pass_rate"] = passes.model_copy(update=rated)
    known = [pair for pair in tasks.pairs.values() if pair.ours.known and pair.theirs.known]
    of_b, of_a = ({"pass_rate": _rate(pair[which] for pair in known)} if at_end else {} for which in (0, 1))
    judged = [one for one in common if one.values("pass_rate")]
    passed = Counter(one.passed for one in judged)
    listed = slice(offset, offset + limit)
    comparison = Comparison(
        a=_totals(a, b, common, 0, differences, of_a),
        b=_totals(b, a, common, 1, differences, of_b),
        tasks=len(common),
        **passes.model_dump(include={"a_better", "b_better", "equal"}),
        both_passed=passed[True, True],
        only_a=passed[True, False],
        only_b=passed[False, True],
        neither=passed[False, False],
        differences=differences,
        ended=over,
        not_comparable="; ".join(dict.fromkeys(made.refused.values())) or None,
        refused=list(made.refused),
        left_out=sorted(made.left_out)[listed],
        flips=_flip_groups(judged, limit),
        pairs=[one.shown() for one in common[listed]],
        only_a_tasks=sorted(name_of(one.task) for one in judged if one.passed == (True, False))[listed],
        only_b_tasks=sorted(name_of(one.task) for one in judged if one.passed == (False, True))[listed],
        not_in_a=sorted(map(name_of, b.by_task.keys() - a.by_task.keys()))[listed],
        not_in_b=sorted(map(name_of, a.by_task.keys() - b.by_task.keys()))[listed],
    )
    words = _words_of(a, b, comparison, tasks, rates, judges_every=bool({*allowed} - {"tasks"}))
    words += [one for one in made.words if one not in (*words, *made.refused.values())]
    words += two_units.values()
    for name, directions in said["direction"].items():
        words += read_differently(name, ("A", "B"), directions) if name in differences else []
    lacking = sum(pair.ours.unknown + pair.theirs.unknown > 0 for pair in tasks.pairs.values())
    if over and lacking and passes.tasks:
        words.append(
            f"{lacking:,} of {counted(rates.tasks, 'task')} lack verdicts: the interval and p for "
            "pass rates count these both ways"
        )
    if over and not whole:
        words.append("planned trials are missing: means other than the pass rate have no interval")
    if over and unscored:
        words.append("trials wait for a judge's score: composite_score has no interval and no p")
    return comparison.model_copy(update={"words": words, "in_common": _in_common(comparison)})


def _common_of(a: ComparedSide, b: ComparedSide) -> tuple[list[_Common], list[_Common]]:
    """The common tasks, the most different first; and those that have attempts of both, with these alone."""
    without_verdicts = {one.agent_model for one in (*a.agents, *b.agents) if one.verdict_trials == 0}
    both = ((task, (rows, b.by_task[task])) for task, rows in a.by_task.items() if task in b.by_task)
    common = sorted((_Common(*one, (a, b), without_verdicts) for one in both), key=lambda one: one.place)
    even = [
        one if len(one.rows[0]) == len(one.rows[1]) else replace(one, rows=rows)
        for one in common
        if (rows := _matched(*one.rows))[0]
    ]
    return common, even


def _words_of(
    a: ComparedSide, b: ComparedSide, of: Comparison, tasks: CommonTasks, rates: Paired, *, judges_every: bool
) -> list[str]:
    words = list[str]()
    if of.not_comparable:
        words.append(f"not comparable: {of.not_comparable}")
    elif of.differences["pass_rate"].tasks or not of.tasks:
        words = between(b.run, a.run, b.agent_model, a.agent_model, rates, every_task=judges_every)
    if tasks.differ:
        common = zip(*tasks.pairs.values(), strict=True) if tasks.pairs else ((), ())
        every = [list(side.outcomes.tasks.values()) for side in (b, a)]
        judged = [sum(one.known > 0 for one in of) for of in every]
        whole = [
            f"all its {total:,}" if have == total else f"the {have:,} with verdicts of its {total:,}"
            for have, total in zip(judged, tasks.total, strict=True)
        ]
        stated = [
            f"{name} passes {percent(_rate(these))} of these and {percent(_rate(of))} of {which}"
            for name, these, of, which in zip("BA", common, every, whole, strict=True)
        ]
        words.append(f"{counted(len(tasks.pairs), 'task')} in common: {'; '.join(reversed(stated))}")
    runs = {side.run.run.run_id: side.run.run for side in (a, b)}
    going_on = {side.run.run.run_id for side in (a, b) if not side.ended}
    return words + [
        counts_as_complete(run_id)
        for run_id, run in runs.items()
        if run.status is None and run.progress.planned is None and run_id not in going_on
    ]


def _is_whole(common: Sequence[_Common], tasks: CommonTasks) -> bool:
    """Whether every planned trial of the common tasks is there."""
    done = [sum(len(one.rows[which]) for one in common) for which in (1, 0)]
    planned = [sum(one.planned for one in side) for side in zip(*tasks.pairs.values(), strict=True)]
    return all(of <= there for of, there in zip(planned, done, strict=False))


def _rate(trials: Iterable[Attempts]) -> float | None:
    known, passed, _ = map(sum, zip((0, 0, 0), *trials, strict=True))
    return passed / known if known else None


def _in_pairs(pair: PairedTask, task: str, sides: tuple[ComparedSide, ComparedSide]) -> PairedTask:
    """Both sides of a task with unequal attempts: those that both have, and those that both may still get."""
    rows = _matched(*(side.by_key.get(task, []) for side in sides))
    both = min(pair.ours.planned, pair.theirs.planned) - len(rows[0])
    missing = min(both, pair.ours.unknown + pair.theirs.unknown)
    mine, other = (_attempts(side, of, missing) for side, of in zip(sides, rows, strict=True))
    return PairedTask(mine, other)


def _attempts(side: ComparedSide, rows: Sequence[AnyRow], missing: int) -> Attempts:
    unknown = sum(row.success is None or side.waits(row) for row in rows)
    return Attempts(len(rows) - unknown, sum(row.success is True for row in rows), missing + unknown)


def _matched(ours: Sequence[AnyRow], theirs: Sequence[AnyRow]) -> tuple[list[AnyRow], list[AnyRow]]:
    """The trials of a task that are the same attempt on both sides, in the same order."""
    numbered, other = (dict(zip(pairings_of(rows)[0], rows, strict=True)) for rows in (ours, theirs))
    both = [one for one in numbered if one in other]
    return [numbered[one] for one in both], [other[one] for one in both]


def _flip_groups(judged: Iterable[_Common], limit: int) -> list[FlipGroup]:
    """The tasks that one side alone passes, by tier and how the other failed: A's first, then by size."""
    groups: dict[tuple[Literal["a", "b"], str | None, str | None], list[str]] = {}
    for one in judged:
        if one.passed[0] != one.passed[1]:
            by: Literal["a", "b"] = "a" if one.passed[0] else "b"
            mode = _failure_mode(one.rows[1 if by == "a" else 0])
            groups.setdefault((by, one.task[1], mode), []).append(name_of(one.task))
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


def _in_common(sides: Comparison) -> str:
    common = f"{counted(sides.tasks, 'task')} in common"
    alone = f"only in A {sides.a.only_here:,}, only in B {sides.b.only_here:,}"
    if sides.tasks and not sides.differences["pass_rate"].tasks:
        return f"{common}, without verdicts to compare; {alone}"
    unjudged = sides.tasks - (sides.both_passed + sides.only_a + sides.only_b + sides.neither)
    without = f", without a verdict {unjudged:,}" if unjudged else ""
    return (
        f"{common}: passed by both {sides.both_passed:,}, by A alone {sides.only_a:,}, "
        f"by B alone {sides.only_b:,}, by neither {sides.neither:,}{without}; {alone}"
    )


def worse_by(difference: Difference) -> float | None:
    """By how much the second side is worse, in the metric's unit; None: no common task has the metric."""
    if difference.mean is None:
        return None
    return -difference.mean if difference.higher_is_better else difference.mean


def value_of(means: Side | SideTotals, metric: str) -> float | None:
    """The mean of a metric, built-in or `metrics/NAME`; None: not known."""
    if metric.startswith(NAMED):
        return means.metrics.get(metric.removeprefix(NAMED))
    value: float | None = getattr(means, metric)
    return value


def _differences(
    common: Sequence[_Common], even: Sequence[_Common], readings: Mapping[str, Any], *, whole: bool
) -> dict[str, Difference]:
    """Each metric over the tasks where both sides know it; the sign test takes `even` attempts alone."""
    difference = partial(_difference, common=common, even=even, whole=whole)
    differences = {metric: difference(metric, high) for metric, high in COMPARED_METRICS.items()}
    named = {name for one in common for name in one.means[0].keys() & one.means[1].keys()}
    for name in sorted(metric.removeprefix(NAMED) for metric in named if metric.startswith(NAMED)):
        of = read_as(name, readings.get(name))
        says = {"unit": None if of.unit == "1" else of.unit, "label": of.label}
        differences[of.name] = difference(of.name, of.higher_is_better).model_copy(update=says)
    return differences


def _difference(
    metric: str, high: bool, *, common: Iterable[_Common], even: Iterable[_Common], whole: bool
) -> Difference:
    moved, tested = (
        [values[1] - values[0] for one in tasks if (values := one.values(metric))] for tasks in (common, even)
    )
    up, down = sum(one > 0 for one in moved), sum(one < 0 for one in moved)
    is_shown = whole and len(moved) >= LEAST_TASKS_OF_A_MEAN and all(map(isfinite, moved))
    return Difference(
        tasks=len(moved),
        mean=_mean(moved),
        interval=Ends.of(mean_interval(Clusters.of_sums((1, one) for one in moved))) if is_shown else None,
        higher_is_better=high,
        a_better=down if high else up,
        b_better=up if high else down,
        equal=len(moved) - up - down,
        p_value=sign_test(sum(one > 0 for one in tested), sum(one < 0 for one in tested)) if tested else None,
    )


def _totals(
    side: ComparedSide,
    other: ComparedSide,
    common: Sequence[_Common],
    which: int,
    metrics: Iterable[str],
    at_end: Mapping[str, float | None],
) -> SideTotals:
    """One side over the common tasks; `at_end` are means that hold once nothing more comes."""
    means = {
        metric: _mean(values[which] for one in common if (values := one.values(metric))) for metric in metrics
    }
    return SideTotals(
        run=side.run.run.run_id,
        agent_model=side.agent_model,
        trials=sum(len(one.rows[which]) for one in common),
        only_here=len(side.by_task.keys() - other.by_task.keys()),
        **_fields({**means, **at_end}),
    )


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return nearest_float(mean_of(numbers)) if numbers else None


# -----------------------------------------------------------------------------
# A comparison of two sides as a document: the same on the terminal, in Markdown and in HTML.


OF_INTERVAL = "For a mean difference on tasks like these, clustered by task."

COMPARED_BOARD = Board(
    "Metrics",
    (
        Column("metric", "mean over tasks", "name", ("metric",)),
        Column("a", "A", "number", ("a",), rank=3),
        Column("b", "B", "number", ("b",), rank=3),
        Column("moved", "B - A", "number", ("moved",), rank=1),
        Column("interval", "95 %", "number", ("interval",), hint=OF_INTERVAL, rank=2, about=ALIKE),
        Column("tasks", "tasks", "count", ("tasks",), hint="Tasks where both have it.", rank=5),
        Column("a_better", "A better", "count", ("a_better",), rank=6),
        Column("b_better", "B better", "count", ("b_better",), rank=6),
        Column("equal", "equal", "count", ("equal",), rank=6),
        Column(
            "p", "p", "number", ("p",), hint="Two-sided exact sign test over the tasks that differ.", rank=1
        ),
    ),
)
FLIPS = Board(
    "Tasks that only one side passes",
    (
        Column("passed_by", "passed by", "state", ("passed_by",)),
        Column("tier", "tier", "tier", ("tier",)),
        Column("failure_mode", "the other's failure", "failure", ("failure_mode",)),
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

STILL_OPEN = "No intervals and no p: trials are missing, or the sides are not comparable."
METHODS = (
    "p: exact sign test over the tasks that differ, on the attempts that both sides have. 95 %: interval "
    "of the difference on tasks like these, clustered by task, for pass rates from 5 tasks on and other "
    "means from 10. Pass rates are over all trials of the common tasks, other means over tasks. Each row is "
    "tested separately: one in 20 equal metrics looks different."
)


def comparison_document(comparison: Comparison) -> Document:
    """The whole comparison; of tasks those that it lists."""
    flips = [
        {
            **group.model_dump(exclude={"tasks"}),
            "passed_by": f"{group.passed_by.upper()} alone",
            "tasks": _listed(group.tasks, group.count),
        }
        for group in comparison.flips
    ]
    known = [pair for pair in comparison.pairs if None not in (pair.a.pass_rate, pair.b.pass_rate)]
    differing = [pair for pair in known if pair.a.pass_rate != pair.b.pass_rate]
    left = comparison.a_better + comparison.b_better - len(differing)
    pairs = [{"task": pair.task_id, "tier": pair.tier, "a": pair.a, "b": pair.b} for pair in differing]
    sides = ("A", comparison.a, comparison.not_in_b), ("B", comparison.b, comparison.not_in_a)
    alone = [
        {"side": name, "count": side.only_here, "tasks": _listed(tasks, side.only_here)}
        for name, side, tasks in sides
        if side.only_here
    ]
    return Document(
        title="Two sides on their common tasks",
        facts=[f"A  {_side_words(comparison.a)}", f"B  {_side_words(comparison.b)}"],
        lines=[comparison.in_common, *comparison.words],
        tables=[
            table_of(COMPARED_BOARD, list(_metric_rows(comparison)))._replace(
                note=METHODS if comparison.ended else STILL_OPEN
            ),
            table_of(FLIPS, flips),
            table_of(COMPARED_TASKS, pairs)._replace(note=f"and {left:,} more (--limit)" if left else ""),
            table_of(NOT_COMMON, alone),
        ],
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


def moved(column: Column, by: float | None, write: Write = written) -> str:
    """A difference of two values of a compared metric, with its sign; percentages differ by points.

    >>> moved(COMPARED.columns[0], -0.05), moved(COMPARED.columns[4], 0.5), moved(COMPARED.columns[4], None)
    ('-5.0 points', '+$0.5000', '–')
    """
    if by is None or column.format == "percent":
        return points(by)
    return f"{'+' if by > 0 else ''}{_signed(column, by, write)}"


def interval_of(column: Column, difference: Difference, write: Write = written) -> str:
    """The interval of a difference as text, of percentages in points; "" where there is none."""
    ends = difference.interval
    if ends is None:
        return ""
    if column.format == "percent":
        return ends_in_points(ends.low, ends.high)
    return f"[{_signed(column, ends.low, write)}, {_signed(column, ends.high, write)}]"


def _signed(column: Column, by: float, write: Write) -> str:
    """The minus stands before the sign of a currency."""
    return f"{'-' if by < 0 else ''}{write(column, abs(by))}"


def _metric_rows(comparison: Comparison) -> Iterable[dict[str, Any]]:
    for metric, difference in comparison.differences.items():
        if not difference.tasks:
            continue
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


def _listed(tasks: list[str], count: int) -> str:
    more = [f"and {count - len(tasks):,} more (--limit)"] if count > len(tasks) else []
    return ", ".join([*tasks, *more])


def _side_words(side: SideTotals) -> str:
    whose = "all but baselines" if side.agent_model is None else side.agent_model
    return f"{side.run}: {whose}, {counted(side.trials, 'trial')} of the common tasks"
