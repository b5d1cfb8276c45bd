"""Every two agents of a run, counted and ranked (inference 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.keys import GroupId
from streamer.aggregate.pair_counts import Numbers, PairCounts, common_pairs, known_pairs, pair_counts
from streamer.aggregate.run_state import RunState
from streamer.aggregate.tasks import TaskTable
from streamer.inference.comparisons import DIFFERENCE_PREFIXES, FinalDifference, difference_of
from streamer.inference.conclusion import FinalMissing
from streamer.inference.finite_population import ALPHA, Passes, lowest, prefixes
from streamer.inference.ranks import ComparisonMissing, Place, least_losses, least_losses_at_end, places

MOST_CELLS = 50_000
"""Agents times trials that are compared: at most some MB in Redis, written at most once a second."""

MOST_RANKED_TASKS = 10_000
"""Tasks of the largest plan whose agents are ranked."""


class ComparisonTable:
    """Every two agents of a run, counted.

    Attributes:
        trials: of the agents.
        planned: pairs of every two agents; None: not planned.
        ended: the plan, or the finished run, lacks no final value.
    """

    def __init__(
        self, run: RunState, agents: list[GroupId], final_missing: Mapping[GroupId, str | None]
    ) -> None:
        self._agents = agents
        self._final_missing = [final_missing.get(agent, FinalMissing.NOTHING_YET) for agent in agents]
        self.trials = TaskTable(run, agents)
        self.planned, self.exceeded = self.trials.planned, self.trials.exceeded
        self._attempts = (run.plan.attempts or 1) if self.planned else 1
        self._by_pair = self.trials.by_pair()
        columns = len(self.trials.pairings)
        self._sizes = prefixes(self.planned or max(1, columns))
        self._later, self._orders = self._orders_of(agents)
        self._counts = pair_counts(
            self._by_pair, (self.planned or columns) - columns, self._orders, self._later, self._sizes
        )
        known = known_pairs(self._by_pair)
        self._known = known
        self._pairs = (
            common_pairs(self._by_pair) if self.planned is None else np.full_like(known, self.planned)
        )
        sure = self.planned is not None or run.plan.finished is not None
        self.ended = sure and columns > 0 and bool((self._known == self._pairs).all())

    def pairs(self) -> list[dict[str, Any]]:
        """Counts of every two agents, and the interval of their final difference."""
        won = self._counts.won[:, :, -1].tolist()
        known, pairs = self._known.tolist(), self._pairs.tolist()
        found = []
        for a in range(len(self._agents)):
            for b in range(a + 1, len(self._agents)):
                wins, losses = won[a][b], won[b][a]
                final, missing = self._final(a, b)
                found.append(
                    {
                        "a": a,
                        "b": b,
                        "pairs": pairs[a][b],
                        "wins": wins,
                        "ties": known[a][b] - wins - losses,
                        "losses": losses,
                        "unknown": pairs[a][b] - known[a][b],
                        "final": final and {"low": final.low, "high": final.high},
                        "final_missing": missing,
                    }
                )
        return found

    def ranks(self, labels: list[str]) -> tuple[dict[str, Place] | None, str | None]:
        """The places of all agents, or why there are none."""
        tasks = len(self.trials.tasks) if self.planned is None else self.planned // self._attempts
        if self.planned is None and not self.ended:
            reason = ComparisonMissing.PLAN_EXCEEDED if self.exceeded else ComparisonMissing.NO_PLAN
            return None, reason
        if tasks > MOST_RANKED_TASKS:
            return None, ComparisonMissing.TOO_MANY_TRIALS
        counts = self._counts if self._attempts == 1 and self.planned else self._of_tasks(tasks)
        return ranks_of(labels, counts, tasks, ended=self.ended), None

    def _of_tasks(self, tasks: int) -> PairCounts:
        """The counts with a task as unit; a task stands where its first pair does."""
        task_of = {pairing: task for task, pairing in ((p.task, p) for p in self.trials.pairings)}
        numbers = {task: number for number, task in enumerate(self.trials.tasks)}
        columns = [numbers[task_of[pairing]] for pairing in self.trials.pairings]
        orders = [order and _first_of_each(order, columns) for order in self._orders]
        unseen = tasks - len(numbers)
        return pair_counts(self.trials.by_task(), unseen, orders, self._later, prefixes(max(1, tasks)))

    def _orders_of(self, agents: list[GroupId]) -> tuple[NDArray[np.bool_], list[list[int] | None]]:
        """Who began later than whom, and the order of each agent's pairs."""
        count = len(agents)
        first = [
            min((place for _, place in held), default=-1) if held else -1 for held in self.trials.positions
        ]
        began = sorted(range(count), key=lambda agent: (first[agent], agent))
        turn = np.argsort(np.array(began))
        later: NDArray[np.bool_] = turn[:, None] > turn[None, :]
        if self.planned is None or self.planned * count > MOST_CELLS:
            return later, [None] * count
        if (queue := self.trials.in_queue(self.planned)) is not None:
            return later, [queue] * count
        return later, [self.trials.as_started(agent, self.planned) for agent in range(count)]

    def _final(self, a: int, b: int) -> tuple[FinalDifference | None, str | None]:
        """The interval of the final difference in whole pairs, or why there is none."""
        if reason := self._final_missing[a] or self._final_missing[b]:
            return None, reason
        later = a if self._later[a, b] else b
        if self.planned is None:
            return None, FinalMissing.PLAN_EXCEEDED if self.exceeded else FinalMissing.NO_PLAN
        if self._orders[later] is None:
            return None, FinalMissing.ORDER_UNKNOWN_IN_PART
        found = difference_of(self._possible_wins[a][b], self._possible_wins[b][a])
        return (None, FinalMissing.EMPTY) if found.empty else (found, None)

    @cached_property
    def _possible_wins(self) -> list[list[Passes]]:
        """How often each agent will have won against each other one in the end.

        This is `final_of_prefixes` for all of them at once: few counts differ within a prefix.
        """
        planned = self.planned or 1
        sizes = prefixes(planned, DIFFERENCE_PREFIXES)
        won, can_win = (part[:, :, np.isin(self._sizes, sizes)] for part in self._counts)
        low = _lowest(planned, sizes, won).tolist()
        high = (planned - _lowest(planned, sizes, np.array(sizes) - can_win)).tolist()
        return [
            [Passes(*ends, planned) for ends in zip(*rows, strict=True)]
            for rows in zip(low, high, strict=True)
        ]


def ranks_of(labels: Sequence[str], counts: PairCounts, tasks: int, *, ended: bool) -> dict[str, Place]:
    """The places of all agents: by e-values at any look, by the sign test once everything is in.

    Args:
        labels: of the agents.
        counts: of every two of them; with several attempts the unit is the task.
        tasks: planned, at least as many as the last prefix has.
        ended: no final value is missing.
    """
    won, can_win = counts
    losses, wins = won.transpose(1, 0, 2), can_win
    if ended:
        losses, wins = losses[:, :, -1:], won[:, :, -1:]
    size, table = 1 << tasks.bit_length(), _at_end if ended else _at_any_look

    def shown(level: Fraction) -> list[tuple[str, str]]:
        worse = (losses >= table(size, level)[wins + losses]).any(axis=2)
        np.fill_diagonal(worse, val=False)
        return [(labels[one], labels[other]) for one, other in np.argwhere(worse).tolist()]

    return places(labels, shown)


def _lowest(planned: int, sizes: Sequence[int], passed: Numbers) -> Numbers:
    """The largest lower end over all prefixes, for counts [agent, other agent, prefix]."""
    ends, alpha = np.empty_like(passed), ALPHA / 2
    for place, size in enumerate(sizes):
        counts, where = np.unique(passed[:, :, place], return_inverse=True)
        found = [lowest(planned, size, count, alpha) for count in counts.tolist()]
        ends[:, :, place] = np.array(found)[where].reshape(passed.shape[:2])
    largest: Numbers = ends.max(axis=2)
    return largest


def _first_of_each(order: list[int], columns: list[int]) -> list[int]:
    """The tasks in the order of their first pairs; an unknown pair may be of a task of its own."""
    tasks = [column if column < 0 else columns[column] for column in order]
    first = {task: place for place, task in reversed(list(enumerate(tasks)))}
    return [task for place, task in enumerate(tasks) if task < 0 or first[task] == place]


@lru_cache(maxsize=256)
def _at_any_look(tasks: int, level: Fraction) -> NDArray[np.int64]:
    return np.array(least_losses(tasks, level))


@lru_cache(maxsize=256)
def _at_end(tasks: int, level: Fraction) -> NDArray[np.int64]:
    return np.array(least_losses_at_end(tasks, level))
