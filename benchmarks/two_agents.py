"""Two simulated agents on the same tasks: what passes, and when which result becomes known.

Each task has a chance to pass of its own, from easy to hard. The baseline passes each trial of it with this
chance. The candidate's chance is higher or lower by a share, so that its mean differs by exactly so much.
`benchmarks.simulated_runs` simulates durations, crashes and lost trials.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from random import Random
from typing import NamedTuple

from benchmarks.simulated_runs import Scenario, ends, events
from streamer.statistics.final import Outcome

CHANCES = (0.5, 0.7)
"""Beta distribution of the tasks' chances, as in `benchmarks.simulated_runs`."""
MEAN_CHANCE = CHANCES[0] / sum(CHANCES)


class Sides(StrEnum):
    """How the two agents run."""

    FINISHED = "finished"
    """The baseline has finished before the candidate begins."""
    POOL = "pool"
    """Both share the workers; the two trials of a pair stand side by side in the queue."""
    APART = "apart"
    """Both run at once with workers of their own, each in a shuffled order of its own."""


@dataclass(frozen=True)
class Plan:
    """Tasks and attempts at each; with several attempts there are rounds, and each is shuffled."""

    name: str
    tasks: int
    attempts: int = 1

    @property
    def pairs(self) -> int:
        return self.tasks * self.attempts


@dataclass(frozen=True)
class Way:
    """How a comparison runs, and what happens to its trials."""

    name: str
    scenario: Scenario = field(default_factory=lambda: Scenario("8 at once"))
    sides: Sides = Sides.FINISHED


PLANS = (Plan("89 tasks", 89), Plan("89 tasks, 3 attempts", 89, 3), Plan("500 tasks", 500))

UNKNOWN = (0.14, 0.043)
"""Shares of failures and of passes that never get a final value; together 10 % of the baseline's trials."""
CRASHED = (0.4, 0.1)

WAYS = (
    Way("one at a time", Scenario("one at a time", concurrency=1)),
    Way("8 at once"),
    Way("10 % stay unknown", Scenario("unknowns", cancel=UNKNOWN)),
    Way("crashes, run again", Scenario("crashes", crash=CRASHED)),
    Way("one pool of 8 for both", Scenario("pool"), Sides.POOL),
    Way("one pool of 32 for both", Scenario("pool", concurrency=32), Sides.POOL),
    Way("both at once, 8 each", Scenario("apart"), Sides.APART),
)


class Chances(NamedTuple):
    """Both sides' chances to pass the trials of the plan, in the order of the plan."""

    tasks: list[int]
    """Which task each trial is of."""
    theirs: list[float]
    ours: list[float]


@dataclass(frozen=True)
class TwoRuns:
    """Both sides' trials, pair by pair, in the order of the side that began later.

    Attributes:
        tasks: the task of each pair.
        ours, theirs: outcomes, whether or not they ever become known.
        ours_known, theirs_known: number of the result with which each becomes known, from 1; 0: known before,
            infinite: never.
        results: that come in while the candidate runs.
        planned: results that the plan has in that time, the ones that never come included.
    """

    tasks: list[int]
    ours: list[bool]
    theirs: list[bool]
    ours_known: list[float]
    theirs_known: list[float]
    results: int
    planned: int

    def at(self, look: int) -> tuple[list[Outcome], list[Outcome]]:
        """The outcomes of both sides after so many results."""
        ours, theirs = (
            [outcome if since <= look else None for outcome, since in zip(outcomes, known, strict=True)]
            for outcomes, known in ((self.ours, self.ours_known), (self.theirs, self.theirs_known))
        )
        return ours, theirs


def shifted(chance: float, better: float) -> float:
    """A chance of the candidate. Over all tasks it passes more often by `better`, 0 to 1; negative: less.

    >>> shifted(0.5, 0.0), round(shifted(0.5, -0.2), 3), round(shifted(0.5, 0.1), 3)
    (0.5, 0.26, 0.586)
    """
    if better < 0:
        return chance * (1 + better / MEAN_CHANCE)
    return chance + (1 - chance) * better / (1 - MEAN_CHANCE)


def order_of(plan: Plan, choice: Random) -> list[int]:
    """The task of each trial: the tasks in a shuffled order, once for each attempt."""
    return [task for _ in range(plan.attempts) for task in choice.sample(range(plan.tasks), plan.tasks)]


def two_runs(plan: Plan, way: Way, better: float, choice: Random) -> TwoRuns:
    """One comparison: a candidate that is better by so much, against its baseline."""
    of_task = [choice.betavariate(*CHANCES) for _ in range(plan.tasks)]
    tasks = order_of(plan, choice)
    theirs = [choice.random() < of_task[task] for task in tasks]
    ours = [choice.random() < shifted(of_task[task], better) for task in tasks]
    changes = list(_news(way, plan, tasks, ours, theirs, choice))
    known = [[inf] * plan.pairs, [0.0 if way.sides is Sides.FINISHED else inf] * plan.pairs]
    for number, (side, pair) in enumerate(changes, 1):
        known[side][pair] = number
    planned = plan.pairs if way.sides is Sides.FINISHED else 2 * plan.pairs
    return TwoRuns(tasks, ours, theirs, known[0], known[1], len(changes), planned)


def _news(
    way: Way, plan: Plan, tasks: Sequence[int], ours: list[bool], theirs: list[bool], choice: Random
) -> Iterator[tuple[int, int]]:
    """Side (0: candidate) and pair of each result, as they come in."""
    if way.sides is Sides.FINISHED:
        yield from ((0, pair) for pair, _ in events(way.scenario, ours, choice))
    elif way.sides is Sides.POOL:
        both = [outcome for pair in zip(theirs, ours, strict=True) for outcome in pair]
        yield from ((1 - trial % 2, trial // 2) for trial, _ in events(way.scenario, both, choice))
    else:
        pairs = _pairs_in(order_of(plan, choice), tasks)
        own = ((ended, 0, pair) for ended, pair in ends(way.scenario, ours, choice))
        other = [theirs[pair] for pair in pairs]
        baseline = ((ended, 1, pairs[trial]) for ended, trial in ends(way.scenario, other, choice))
        yield from ((side, pair) for _, side, pair in heapq.merge(own, baseline))


def _pairs_in(order: Sequence[int], tasks: Sequence[int]) -> list[int]:
    """The pair of each trial of an order; a pair is the same attempt at the same task."""
    attempts: dict[int, list[int]] = {}
    for pair, task in enumerate(tasks):
        attempts.setdefault(task, []).append(pair)
    waiting = {task: iter(pairs) for task, pairs in attempts.items()}
    return [next(waiting[task]) for task in order]
