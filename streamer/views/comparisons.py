"""Two agents of a run as the worker counted them, with what may be said of them (inference 7 and 8).

The numbers come from `inference.paired`; here they get the words that every surface uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from pydantic import Field

from streamer.client.results import ComparedRun
from streamer.inference.finite_population import ALPHA
from streamer.inference.paired import Attempts, Paired, PairedTask, paired
from streamer.schemas.base import Message
from streamer.schemas.comparison import ComparedPair, ComparisonMissing, RunComparison, TaskOutcomes
from streamer.stats.rounding import quotient
from streamer.text import ends_in_points, points
from streamer.views.columns import Board, Column
from streamer.views.formatting import place
from streamer.views.tables import Table, table_of

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
    "no_plan": "the run has not said how many trials it plans, and it has not finished",
    "plan_exceeded": "there are more trials than planned, and the run has not finished",
    "too_many_agents": "more than 60 agents",
    "too_many_trials": "too many trials to compare once a second",
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


def pair_standings(found: ComparedRun) -> list[PairStanding]:
    """Every two agents of a run, in the order of the comparison; [] if there is none.

    Args:
        found: as `StateReader.comparison` gives it.
    """
    comparison = found.comparison
    if comparison is None:
        return []
    labels = [agent.agent_model for agent in comparison.agents]
    return [
        pair_standing(comparison, pair, labels[pair.a], labels[pair.b], found.tasks)
        for pair in comparison.pairs
    ]


def pair_standing(
    comparison: RunComparison, counts: ComparedPair, a: str, b: str, tasks: Mapping[str, TaskOutcomes]
) -> PairStanding:
    """Two agents of one comparison."""
    pairs = task_pairs(tasks, tasks, a, b, comparison.planned)
    complete = comparison.planned is not None or comparison.ended
    found = paired(pairs, complete=complete)
    final = None
    if counts.final is not None and counts.pairs:
        low, high = (quotient(end, counts.pairs) for end in (counts.final.low, counts.final.high))
        final = Range(low=low, high=high)
    return PairStanding(
        a=a,
        b=b,
        counts=counts,
        tasks=found.tasks,
        ahead=found.ahead,
        behind=found.behind,
        equal=found.equal,
        open=found.open,
        uneven=found.uneven,
        difference=found.difference,
        final=final,
        reachable=_range_of(found.reachable),
        better=found.better,
        worse=found.worse,
        ended=found.ended,
        interval=_range_of(found.interval),
        p_value=found.p_value,
        words=list(_pair_words(a, b, found, final, shuffled=comparison.order_kind == "shuffled")),
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
        labels = {ours, theirs}
        return next((pair.words for pair in pair_standings(a) if {pair.a, pair.b} == labels), [])
    found = paired(task_pairs(a.tasks, b.tasks, ours, theirs, None), complete=ended)
    names = (f"{ours} of {a.run.run_id}", f"{theirs} of {b.run.run_id}")
    return list(_pair_words(*names, found, None, shuffled=False, about=" on tasks like these"))


def _only_agent(run: ComparedRun) -> str | None:
    labels = {label for outcomes in run.tasks.values() for label in outcomes}
    return labels.pop() if len(labels) == 1 else None


def comparison_tables(found: ComparedRun) -> list[Table]:
    """The ranks, and every two agents in a sentence; [] without a comparison."""
    comparison = found.comparison
    if comparison is None:
        return []
    ranked = [
        {"agent_model": agent.agent_model, "rank": agent.rank and place(agent.rank)}
        for agent in comparison.agents
    ]
    pairs = [
        {"a": one.a, "b": one.b, **_counts(one.counts), "words": "; ".join(one.words)}
        for one in pair_standings(found)
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
    ours = {task: Attempts(*held[a]) for task, held in tasks.items() if a in held}
    theirs = {task: Attempts(*held[b]) for task, held in other.items() if b in held}
    if planned is None:
        return [PairedTask(ours[task], theirs[task]) for task in ours if task in theirs]
    every = {**ours, **theirs}
    attempts = max((one.planned for one in every.values()), default=1)
    none = Attempts(0, 0, attempts)
    unseen = max(0, planned // attempts - len(every))
    awaited = {task: Attempts(0, 0, one.planned) for task, one in every.items()}  # as many as of the other
    found = [PairedTask(ours.get(task, one), theirs.get(task, one)) for task, one in awaited.items()]
    return found + [PairedTask(none, none)] * unseen


def _pair_words(
    a: str, b: str, found: Paired, final: Range | None, *, shuffled: bool, about: str = ""
) -> Iterable[str]:
    """The sentences that hold, strongest first; of nothing: one that says so, and what it is about."""
    said = [
        *_of_run(a, b, found, final if shuffled or found.ended else None),
        *_of_ability(a, b, found),
    ]
    if final is not None and not shuffled and not found.ended:
        said.append(
            f"{_in_points(found.difference)} so far, {_ends(final)} in the end, if the order has nothing "
            "to do with difficulty"
        )
    said = said or [f"{NOTHING} {a} and {b}{about} yet" if not found.ended else f"{a} and {b}: no difference"]
    if found.uneven:
        said.append(f"{found.uneven} of {found.tasks} tasks have unequal attempts: no test uses them")
    return said


def _of_run(a: str, b: str, found: Paired, final: Range | None) -> Iterable[str]:
    """About this run's final pass rate."""
    reach = found.reachable
    for ahead, behind, sign in ((a, b, 1), (b, a, -1)):
        if reach is not None and not found.ended and min(sign * end for end in reach) > 0:
            yield f"{ahead} can no longer be overtaken by {behind}, unless results are corrected"
        if final is not None and not found.ended and min(sign * final.low, sign * final.high) > 0:
            ends = sorted((sign * final.low, sign * final.high))
            yield (
                f"{ahead} ahead in this run's final pass rate: {_in_points(_times(found.difference, sign))} "
                f"so far, {_ends(Range(low=ends[0], high=ends[1]))} in the end; 95 %, however often you look"
            )


def _of_ability(a: str, b: str, found: Paired) -> Iterable[str]:
    """About tasks like these."""
    for ahead, behind, evidence in ((a, b, found.better), (b, a, found.worse)):
        if not found.ended and Fraction(evidence) >= EITHER:
            yield (
                f"{ahead} better than {behind} on tasks like these: e-value {evidence:.3g}, {EITHER} needed; "
                "95 %, however often you look"
            )
    if found.interval is not None:
        if found.certain:
            ahead = a if found.ahead > found.behind else b
            yield f"{ahead} ahead on tasks like these: sign test p = {found.p_value:.3g}"
        yield (
            f"{a} minus {b}: {_in_points(found.difference)} {_ends(_range_of(found.interval))}; 95 %, "
            "about tasks like these"
        )


def _times(value: float | None, sign: int) -> float | None:
    return None if value is None else sign * value


def _in_points(value: float | None) -> str:
    return "no common result" if value is None else points(value)


def _ends(found: Range | None) -> str:
    return "" if found is None else ends_in_points(found.low, found.high)


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
