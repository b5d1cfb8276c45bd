"""The comparison of a run's agents: counts of every two, and the rank of each (inference 7).

It follows from the trials as they stand, so the order of events, duplicates and retractions cannot matter.
How a pair becomes a rank: `TaskTable` reads the trials, `pair_counts` counts, `pair_evidence` weighs the
counts, `ranks_so_far` ranks, and at the end `ranks_at_end` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.folding.plan import Denominators
from streamer.folding.slots import SlotKey, SummaryChange, TasksChange, packed
from streamer.folding.state import RunState
from streamer.folding.summaries import Summaries, sealed
from streamer.folding.uncertainty import LEVEL, NUMERIC
from streamer.schemas.base import task_key
from streamer.schemas.wire import COMPARISON, GroupId, SummaryKind, canonical_json
from streamer.statistics.final import (
    ALPHA,
    EACH,
    FinalMissing,
    OrderKind,
    Passes,
    digest,
    lowest,
    prefixes,
    with_gaps,
)
from streamer.statistics.pairs import (
    DIFFERENCE_PREFIXES,
    ComparisonMissing,
    FinalDifference,
    Place,
    difference_of,
    e_value,
    least_losses_at_end,
    places,
)

# -----------------------------------------------------------------------------
# The trials of a run's agents, task by task: what comparisons are worked out from (inference 7).
#
# Two agents' trials are a pair if they are the same attempt at the same task, of the same tier and subtest.
# Where a harness gives repeats a shard each instead of numbers, `pairings_of` numbers them.


Task = tuple[str | None, str | None, str]
"""Tier, subtest and task id."""


class Pairing(NamedTuple):
    """What the trials of a pair have in common; `repeat` counts equal numbers that only shards tell apart."""

    task_id: str
    attempt: int
    tier: str | None
    subtest: str | None
    repeat: int = 0

    @property
    def task(self) -> Task:
        return (self.tier, self.subtest, self.task_id)

    def slot(self, shard: str) -> SlotKey:
        """A slot of the pair, for the queue, which asks for the task, the attempt and any shard."""
        return SlotKey(shard, self.task_id, self.attempt, "", "", self.tier, self.subtest)


class Trials(NamedTuple):
    """Trials of all agents: a row for each agent, a column for each pair or for each task.

    Attributes:
        planned: trials that are planned, started or in; 0 where nothing is known and nothing is planned.
        low: those that passed.
        high: those that may pass in the end: the passed ones and the unknown ones.
    """

    planned: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]


class TaskTable:
    """The trials of some agents of a run, as they stand.

    Args:
        run: the run.
        agents: agent:models of it, at least one.

    Attributes:
        planned: pairs of every two agents; None: not planned, so only trials that were seen count.
        exceeded: more pairs were seen than planned, so the plan counts for nothing.
        pairings: columns of the pairs.
        tasks: columns of the tasks.
        positions: for each agent the pairing and the position of its trials; None: a trial has no position.
        others: for each agent the positions of all other trials in the run's one queue.
    """

    def __init__(self, run: RunState, agents: Sequence[GroupId]) -> None:
        self._run = run
        self._open_states = run.open_states()
        self._labels = [group.agent_model or "" for group in agents]
        self._columns: dict[Pairing, int] = {}
        self._unnumbered: list[list[int]] = []
        self._sharded: set[Pairing] = set()
        self.positions: list[list[tuple[Pairing, int]] | None] = []
        self.others: list[set[int]] = []
        rows = [self._row(group) for group in agents]
        self.pairings = list(self._columns)
        declared = Denominators(run.plan, run.groups, run.scores.is_baseline).declared(agents[0])
        self.exceeded = declared is not None and len(self.pairings) > declared
        self._attempts = None if self.exceeded or not declared else run.plan.attempts
        self.planned = declared if self._attempts else None
        self.tasks = list(dict.fromkeys(pairing.task for pairing in self.pairings))
        numbers = {task: number for number, task in enumerate(self.tasks)}
        self._task_of = np.array([numbers[one.task] for one in self.pairings], np.intp)
        shape = (len(agents), len(self.pairings))
        self._present, self._final, self._passed = (np.zeros(shape, np.bool_) for _ in range(3))
        for number, (columns, final, passed) in enumerate(rows):
            self._present[number, columns] = True
            self._final[number, columns] = final
            self._passed[number, columns] = passed

    def by_pair(self) -> Trials:
        """One trial of each agent in each column; a trial without a number may be in any."""
        planned = self._present if self._attempts is None else np.ones_like(self._present)
        numbered = np.ones_like(self._present)
        for number, columns in enumerate(self._unnumbered):
            numbered[number, columns] = False
        return _trials(planned.astype(np.int32), self._passed & numbered, self._final & numbered)

    def by_task(self) -> Trials:
        """All attempts at a task in one column."""
        final, passed, present = map(self._summed, (self._final, self._passed, self._present))
        planned = present if self._attempts is None else np.maximum(present, self._attempts)
        return Trials(planned, passed, passed + planned - final)

    def in_queue(self, planned: int) -> list[int] | None:
        """The pairs' columns in the order of the plan's queue, -1 for a pair of which nothing is known.

        None: the plan has no such order.
        """
        queue = self._run.queue
        if queue.places is None or queue.places < planned or queue.has_grown:
            return None
        slots = ((one, one.slot("any" if one in self._sharded else "")) for one in self.pairings)
        placed = [(one, place) for one, slot in slots if (place := queue.place(slot)) is not None]
        return self._ordered(placed, planned, set()) if len(placed) == len(self.pairings) else None

    def as_started(self, agent: int, planned: int) -> list[int] | None:
        """The same in the order in which an agent's trials started."""
        positions = self.positions[agent]
        if positions is None or self._run.queue.has_grown or self._unnumbered[agent]:
            return None
        return self._ordered(positions, planned, self.others[agent])

    def fields(self) -> dict[str, str]:
        """Task to the JSON of {agent:model: [known, passed, unknown]}, without agents that have no trial."""
        planned, low, high = self.by_task()
        cells = np.stack([planned - high + low, low, high - low], axis=2)
        fields: list[dict[str, list[int]]] = [{} for _ in self.tasks]
        for label, row, present in zip(self._labels, cells, self._summed(self._present), strict=True):
            tasks = np.flatnonzero(present)
            for task, cell in zip(tasks.tolist(), row[tasks].tolist(), strict=True):
                fields[task][label] = cell
        return {
            task_key(*task): canonical_json(counts).decode()
            for task, counts in zip(self.tasks, fields, strict=True)
        }

    def _row(self, group: GroupId) -> tuple[list[int], NDArray[np.bool_], NDArray[np.bool_]]:
        """The columns of an agent's trials of which anything is known; which are final, and which passed."""
        lineup = self._run.scores.roster.lineup(group)
        final, passed = self._run.evidence(group, self._open_states).final_and_passed()
        seen = np.flatnonzero(np.where(lineup.states & NUMERIC, 0, lineup.states))
        rows = seen.tolist()
        keys = lineup.keys()
        positions = lineup.positions() if self._run.queue.places is None else {}
        pairings, unnumbered = pairings_of([keys[row] for row in rows], self._run.plan.attempts)
        columns = [self._columns.setdefault(pairing, len(self._columns)) for pairing in pairings]
        self._unnumbered.append([self._columns[pairing] for pairing in unnumbered])
        self._sharded.update(one for one, row in zip(pairings, rows, strict=True) if keys[row].shard)
        placed = [(one, positions[row]) for one, row in zip(pairings, rows, strict=True) if row in positions]
        self.positions.append(placed if len(placed) == len(rows) else None)
        self.others.append(lineup.others() if placed else set())
        return columns, final[seen], passed[seen]

    def _summed(self, cells: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The cells of each task's pairs together."""
        sums = np.zeros((len(cells), len(self.tasks)), np.int32)
        for number, row in enumerate(cells):
            sums[number] = np.bincount(self._task_of[row], minlength=len(self.tasks))
        return sums

    def _ordered(self, placed: list[tuple[Pairing, int]], planned: int, others: set[int]) -> list[int] | None:
        if len(placed) > planned:
            return None
        ordered = by_place(self._run.run_id, placed, planned, others)
        return [-1 if one is None else self._columns[one] for one in ordered]


def pairings_of(keys: Sequence[SlotKey], attempts: int | None) -> tuple[list[Pairing], set[Pairing]]:
    """The pairing of each trial of one agent, and those whose number is not known yet (inference 3).

    Repeats that only the names of shards tell apart are numbered in the order of these names. While some
    planned trial of their task has no name, its name may come before theirs. So their numbers are open: a
    number by rank among the trials so far would depend on which trials are fast.

    Args:
        keys: slots of the trials.
        attempts: planned trials of each task; None: those that are there.
    """
    are_named = any(key.shard for key in keys) and all(key.attempt == 1 for key in keys)
    pairings = [Pairing(key.task_id, key.attempt, key.tier, key.subtest) for key in keys]
    times = Counter(pairing.task for pairing in pairings)
    repeats: Counter[Pairing] = Counter()
    are_unique = len(set(pairings)) == len(pairings)
    for row in () if are_unique else sorted(range(len(keys)), key=lambda row: keys[row].shard):
        pairing = pairings[row]
        number = repeats[pairing]
        pairings[row] = pairing._replace(attempt=1 + number) if are_named else pairing._replace(repeat=number)
        repeats[pairing] += 1
    is_open = {task for task, count in times.items() if are_named and count < (attempts or 1)}
    return pairings, {pairing for pairing in pairings if pairing.task in is_open}


def by_place(
    run_id: str, placed: Iterable[tuple[Pairing, int]], planned: int, others: set[int]
) -> list[Pairing | None]:
    """Trials in order, None for one that may be any; ties go by a hash, never by the name of a task.

    Args:
        run_id: the run, for ties.
        placed: trials and their places.
        planned: how many trials there will be.
        others: places of trials that are not asked for.
    """
    ordered = sorted(placed, key=lambda at: (at[1], digest(run_id, str(at[0]))))
    gaps = with_gaps([place for _, place in ordered], planned, others)
    return [None if index is None else ordered[index][0] for index in gaps]


def _trials(planned: NDArray[np.int32], passed: NDArray[np.bool_], final: NDArray[np.bool_]) -> Trials:
    low = passed.astype(np.int32)
    return Trials(planned, low, low + planned - final.astype(np.int32))


# -----------------------------------------------------------------------------
# Wins and losses of every two agents, in all and in prefixes of the order (inference 7).


Numbers = NDArray[np.int64]


class PairCounts(NamedTuple):
    """Counts of every two agents, [agent, other agent, prefix]; the last prefix is all that is planned.

    Attributes:
        won: pairs that the first agent wins for certain.
        can_win: pairs that it may win in the end, the won ones included.

    What the first agent loses is what the second one wins.
    """

    won: Numbers
    can_win: Numbers


def pair_counts(
    trials: Trials,
    unseen: int,
    orders: Sequence[list[int] | None],
    later: NDArray[np.bool_],
    sizes: Sequence[int],
) -> PairCounts:
    """Count in prefixes of the order of the side that began later.

    Args:
        trials: of all agents.
        unseen: planned columns of which nothing is known; they may be won by either side.
        orders: for each agent its columns in order, -1 for an unknown one; None: no order, so that only the
            last prefix says something.
        later: whether the first agent began later than the second.
        sizes: how many columns each prefix has, ascending.
    """
    agents = len(trials.low)
    won, can_win = (np.zeros((agents, agents, len(sizes)), np.int64) for _ in range(2))
    can_win[:, :, :-1] = np.array(sizes[:-1])  # without an order everything may still come
    padded = [
        np.pad(part, ((0, 0), (0, 1)), constant_values=end)
        for part, end in zip(trials, (1, 0, 1), strict=True)
    ]
    for agent in range(agents):
        others = np.flatnonzero(later[agent])
        order = orders[agent]
        if order is not None and len(others):
            columns = np.array((order + [-1] * sizes[-1])[: sizes[-1]], np.intp)
            ours, theirs = ([part[who][:, columns] for part in padded] for who in ([agent], others))
            ends = np.array(sizes[:-1], np.intp) - 1
            for first, second, one, two in ((agent, others, ours, theirs), (others, agent, theirs, ours)):
                sure, possible = _wins(one, two)
                won[first, second, :-1] = np.cumsum(sure, axis=1)[:, ends]
                can_win[first, second, :-1] = np.cumsum(possible, axis=1)[:, ends]
        sure, possible = _wins([part[[agent]] for part in trials], trials)
        won[agent, :, -1] = sure.sum(axis=1)
        can_win[agent, :, -1] = possible.sum(axis=1) + unseen
    return PairCounts(won, can_win)


def final_pairs(trials: Trials) -> Numbers:
    """How many pairs of every two agents have two final values."""
    return _together((trials.planned > 0) & (trials.low == trials.high))


def common_pairs(trials: Trials) -> Numbers:
    """How many pairs of every two agents are planned, started or in on both sides."""
    return _together(trials.planned > 0)


def _together(cells: NDArray[np.bool_]) -> Numbers:
    """In how many columns both of two agents have a mark; products of floats are fast, and exact here.

    `marks @ marks.T` would spread over all cores, and its threads spin while others need them.
    """
    marks = cells.astype(np.float64)
    counts: Numbers = np.einsum("ac,bc->ab", marks, marks).astype(np.int64)
    return counts


def _wins(
    ours: Sequence[NDArray[np.int32]], theirs: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Columns where we pass more often for certain, and where we may in the end.

    Neither side wins a column with unequal attempts, for the reason that `TaskPair.won` gives.
    """
    (planned, low, high), (other_planned, other_low, other_high) = ours, theirs
    even = planned == other_planned
    return even & (low > other_high), even & (high > other_low)


# -----------------------------------------------------------------------------
# Every two agents of a run, counted and ranked (inference 7).


MOST_CELLS = 50_000
"""Agents times trials that are compared: at most some MB in Redis, written at most once a second."""

MOST_RANKED_TASKS = 10_000
"""Tasks of the largest plan whose agents are ranked."""


class ComparisonTable:
    """Every two agents of a run, counted.

    Attributes:
        trials: of the agents.
        evidence: of every two; None: no plan, and the run goes on.
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
        self._later, self._orders = self._orders_of(run, agents)
        self._counts = pair_counts(
            self._by_pair, (self.planned or columns) - columns, self._orders, self._later, self._sizes
        )
        final = final_pairs(self._by_pair)
        self._final_pairs = final
        self._pairs = (
            common_pairs(self._by_pair) if self.planned is None else np.full_like(final, self.planned)
        )
        sure = self.planned is not None or run.plan.finished is not None
        self.ended = sure and columns > 0 and bool((self._final_pairs == self._pairs).all())
        self.evidence = None if self.planned is None and not self.ended else pair_evidence(self._counts)

    def pairs(self) -> list[dict[str, Any]]:
        """Counts of every two agents, the interval of their final difference, and the evidence."""
        won = self._counts.won[:, :, -1].tolist()
        final_counts, pairs = self._final_pairs.tolist(), self._pairs.tolist()
        rows = []
        for a in range(len(self._agents)):
            for b in range(a + 1, len(self._agents)):
                wins, losses = won[a][b], won[b][a]
                final, missing = self._final(a, b)
                rows.append(
                    {
                        "a": a,
                        "b": b,
                        "pairs": pairs[a][b],
                        "wins": wins,
                        "ties": final_counts[a][b] - wins - losses,
                        "losses": losses,
                        "unknown": pairs[a][b] - final_counts[a][b],
                        "final": final and {"low": final.low, "high": final.high},
                        "final_missing": missing,
                        "evidence": self.evidence and self.evidence.between(a, b),
                    }
                )
        return rows

    def ranks(self, labels: list[str]) -> tuple[dict[str, Place] | None, str | None]:
        """The places of all agents, or why there are none."""
        tasks = len(self.trials.tasks) if self.planned is None else self.planned // self._attempts
        if self.evidence is None:
            reason = ComparisonMissing.PLAN_EXCEEDED if self.exceeded else ComparisonMissing.NO_PLAN
            return None, reason
        if tasks > MOST_RANKED_TASKS:
            return None, ComparisonMissing.TOO_MANY_TRIALS
        if not self.ended:
            return ranks_so_far(labels, self.evidence), None
        numbers = {task: number for number, task in enumerate(self.trials.tasks)}
        tasks_of_pairs = [numbers[one.task] for one in self.trials.pairings]
        return ranks_at_end(labels, self._by_pair, tasks_of_pairs), None

    def _orders_of(
        self, run: RunState, agents: list[GroupId]
    ) -> tuple[NDArray[np.bool_], list[list[int] | None]]:
        """Who began later than whom, and the order of each agent's pairs."""
        count = len(agents)
        first = [
            min((place for _, place in positions), default=-1) if positions else -1
            for positions in self.trials.positions
        ]
        began = sorted(range(count), key=lambda agent: (first[agent], agent))
        turn = np.argsort(np.array(began))
        later: NDArray[np.bool_] = turn[:, None] > turn[None, :]
        if self.planned is None or self.planned * count > MOST_CELLS or not orders_pairs(run, run.run_id):
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
        difference = difference_of(self._possible_wins[a][b], self._possible_wins[b][a])
        return (None, FinalMissing.EMPTY) if difference.empty else (difference, None)

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


def orders_pairs(run: RunState, *sides: str) -> bool:
    """Whether evidence may take its pairs in the order of this run (inference 5 and 7).

    Evidence refutes that neither side is favoured on any task. Under that no order misleads but one that was
    made of a side's own results. So an order that was chosen has to say from what.

    Args:
        sides: the runs that are compared.
    """
    history = run.plan.get("order_history") or ()
    is_explained = run.queue.kind is not OrderKind.CHOSEN or bool(history or run.plan.get("order_reason"))
    return is_explained and not set(sides) & set(history)


class EvidenceTable(NamedTuple):
    """What may be said of every two agents while a run goes on, [agent, other agent].

    Attributes:
        worse: evidence that the first agent is worse, at least 1.
        behind: whether the first agent may be called worse, because the mean says so too.
    """

    worse: NDArray[np.float64]
    behind: NDArray[np.bool_]

    def between(self, a: int, b: int) -> dict[str, Any]:
        """The evidence of two agents, as it is published."""
        ahead = "a" if self.behind[b, a] else "b" if self.behind[a, b] else None
        return {"better": float(self.worse[b, a]), "worse": float(self.worse[a, b]), "ahead": ahead}


def pair_evidence(counts: PairCounts) -> EvidenceTable:
    """`evidence_worse` and `is_behind` of every two agents; each pair of trials is one toss."""
    won, can_win = counts
    lost = won.transpose(1, 0, 2)
    is_decided = (won == can_win) & (lost == can_win.transpose(1, 0, 2))
    last = np.maximum(is_decided.sum(axis=2) - 1, 0)[:, :, None]
    lead = np.take_along_axis(np.where(is_decided, won - lost, 0), last, axis=2)[:, :, 0]
    behind = (lead < 0) | (can_win[:, :, -1] < lost[:, :, -1])
    # Elsewhere the evidence is at most 1, or the prefix before has as much.
    telling = (lost > can_win) & (np.diff(lost, prepend=0) > 0)
    worse = np.ones(behind.shape)
    values = map(e_value, can_win[telling].tolist(), lost[telling].tolist())
    np.maximum.at(worse, np.nonzero(telling)[:2], list(values))
    return EvidenceTable(worse, behind & ~behind.T)


def ranks_so_far(labels: Sequence[str], evidence: EvidenceTable) -> dict[str, Place]:
    """The places of all agents by the evidence of every two of them, whenever you look."""

    def shown(level: Fraction) -> list[tuple[str, str]]:
        worse = (evidence.worse >= float(1 / level)) & evidence.behind
        return [(labels[one], labels[other]) for one, other in np.argwhere(worse).tolist()]

    return places(labels, shown, EACH)


def ranks_at_end(labels: Sequence[str], trials: Trials, tasks: Sequence[int]) -> dict[str, Place]:
    """The places of all agents by the sign test over tasks, once everything is in.

    A task is won by who passes it more often in the attempts that both have. An agent stands behind another
    one only if it also passes less often in all trials of the common tasks.

    Args:
        labels: of the agents.
        trials: of all agents, pair by pair.
        tasks: the task of each pair.
    """
    order = np.argsort(np.array(tasks, np.intp), kind="stable")
    first = np.flatnonzero(np.diff(np.array(tasks, np.intp)[order], prepend=-1))
    there, passed = (part[:, order].astype(np.int64) for part in (trials.planned > 0, trials.low))
    all_there, all_passed = (np.add.reduceat(part, first, axis=1) for part in (there, passed))
    count = len(labels)
    won, passes, planned = (np.zeros((count, count), np.int64) for _ in range(3))
    for agent in range(count):
        ours = np.add.reduceat(passed[agent] * there, first, axis=1)
        theirs = np.add.reduceat(passed * there[agent], first, axis=1)
        won[agent] = (ours > theirs).sum(axis=1)
        passes[agent] = (all_passed[agent] * (all_there > 0)).sum(axis=1)
        planned[agent] = (all_there[agent] * (all_there > 0)).sum(axis=1)
    behind = passes * planned.T < passes.T * planned

    def shown(level: Fraction) -> list[tuple[str, str]]:
        least = _least_losses(1 << len(first).bit_length(), level)
        worse = (least[won + won.T] <= won.T) & behind
        return [(labels[one], labels[other]) for one, other in np.argwhere(worse).tolist()]

    return places(labels, shown, EACH)


def _lowest(planned: int, sizes: Sequence[int], passed: Numbers) -> Numbers:
    """The largest lower end over all prefixes, for counts [agent, other agent, prefix]."""
    ends, alpha = np.empty_like(passed), ALPHA / 2
    for place, size in enumerate(sizes):
        counts, where = np.unique(passed[:, :, place], return_inverse=True)
        bounds = [lowest(planned, size, count, alpha) for count in counts.tolist()]
        ends[:, :, place] = np.array(bounds)[where].reshape(passed.shape[:2])
    largest: Numbers = ends.max(axis=2)
    return largest


@lru_cache(maxsize=512)
def _least_losses(tasks: int, level: Fraction) -> NDArray[np.int64]:
    return np.array(least_losses_at_end(tasks, level))


# -----------------------------------------------------------------------------
# The comparison of a run's agents: counts of every two, and the rank of each (inference 7).


MOST_AGENTS = 60


class Comparisons:
    """The comparison of a run, and its tasks. Remembers what was taken last.

    Args:
        run: the state that is compared.
        summaries: of the run; they are worked out before the comparison is.
        epoch: as of the summaries.
        made_with: likewise.

    Attributes:
        tasks_taken: the tasks as they were taken last; None: there never were any.
    """

    def __init__(self, run: RunState, summaries: Summaries, epoch: int, made_with: str) -> None:
        self._run, self._summaries = run, summaries
        self._epoch, self._made_with = epoch, made_with
        self._taken = ""
        self.tasks_taken: TasksChange | None = None

    def take(self) -> tuple[list[SummaryChange], TasksChange | None]:
        """The comparison and the tasks, where they say something else than when they were taken last."""
        comparison, trials = self._now()
        fields, tasks = packed(trials.fields() if trials else {}), None
        if fields != (self.tasks_taken.packed if self.tasks_taken else b""):
            version = self._run.state_version
            tasks = self.tasks_taken = TasksChange(self._run.run_id, fields, self._epoch, version)
        if comparison.digest == self._taken:
            return [], tasks
        self._taken = comparison.digest
        return [comparison], tasks

    def all(self) -> list[SummaryChange]:
        """The comparison as it stands, if there is one; takes nothing."""
        return [change for change in [self._now()[0]] if change.value is not None]

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of the comparison, if it was taken and not withdrawn."""
        return [(COMPARISON.kind, COMPARISON.topic_key(self._run.run_id))] if self._taken else []

    def tasks(self) -> dict[str, str]:
        """The tasks as they stand, as Redis holds them; takes nothing."""
        self._run.count()
        trials = self._now()[1]
        return trials.fields() if trials else {}

    def _now(self) -> tuple[SummaryChange, TaskTable | None]:
        run = self._run
        agents = compared_agents(run)
        body, trials = compared(run, agents, self._summaries.final_missing) if agents else (None, None)
        return sealed(run, COMPARISON, body, {}, self._epoch, self._made_with), trials


def compared_agents(run: RunState) -> list[GroupId]:
    """The agent:models that are compared, by label: planned, started or with results; no baselines."""
    roster = run.scores.roster
    seen = {group for group in roster.groups() if group.agent and group.tier is None}
    seen = {group for group in seen if roster.lineup(group).states.any()}
    if not seen:
        return []
    planned = {GroupId(None, agent, model) for agent, model in run.plan.agent_models()}
    every = (group for group in seen | planned if not run.scores.is_baseline(group.agent or ""))
    return sorted(every, key=lambda group: group.agent_model or "")


def compared(
    run: RunState, agents: list[GroupId], final_missing: Mapping[GroupId, str | None]
) -> tuple[dict[str, Any] | None, TaskTable | None]:
    """The comparison's body, None of a single agent; and the trials, None where there are too many."""
    labels = [group.agent_model or "" for group in agents]
    body: dict[str, Any] = {
        "agents": [_agent(group) for group in agents[:MOST_AGENTS]],
        "agents_total": len(agents),
        "planned": None,
        "ended": False,
        "order_kind": run.queue.kind,
        "level": LEVEL,
        "pairs": [],
        "missing": None,
        "rank_missing": None,
    }
    if len(agents) > MOST_AGENTS:
        return body | _without(ComparisonMissing.TOO_MANY_AGENTS), None
    if sum(len(run.scores.roster.lineup(group).states) for group in agents) > MOST_CELLS:
        return body | _without(ComparisonMissing.TOO_MANY_TRIALS), None
    if len(agents) < 2:
        return None, TaskTable(run, agents)
    if not all(map(partial(_has_verdicts, run), agents)):
        return body | _without(ComparisonMissing.NO_VERDICTS), TaskTable(run, agents)
    table = ComparisonTable(run, agents, final_missing)
    ranks, rank_missing = table.ranks(labels)
    for agent, label in zip(body["agents"], labels, strict=True):
        agent["rank"] = ranks[label]._asdict() if ranks else None
    told = {"planned": table.planned, "ended": table.ended, "rank_missing": rank_missing}
    return body | told | {"pairs": table.pairs()}, table.trials


def _has_verdicts(run: RunState, group_id: GroupId) -> bool:
    """Whether no trial of an agent has numbers alone (R31)."""
    return not run.scores.roster.lineup(group_id).count_any(NUMERIC)


def _agent(group: GroupId) -> dict[str, Any]:
    return {"agent_model": group.agent_model, "agent": group.agent, "model": group.model, "rank": None}


def _without(reason: ComparisonMissing) -> dict[str, Any]:
    return {"missing": reason, "rank_missing": reason}
