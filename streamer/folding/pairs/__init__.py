"""The comparison of a run's agents: counts of every two, and the rank of each (inference 7).

The order of events, duplicates and retractions cannot matter. `TaskTable` reads the trials, `pair_counts`
counts, `pair_evidence` weighs the counts, and `ranks_so_far` and `ranks_at_end` rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamer.folding.groups import GroupState
from streamer.folding.slots import SlotKey, SummaryChange, TasksChange, packed
from streamer.folding.state import RunState, compared_agents
from streamer.folding.summaries import Summaries, sealed
from streamer.folding.uncertainty import LEVEL, NUMERIC, conclusion
from streamer.schemas.base import COMPARISON, GroupId, SummaryKind, canonical_json, microseconds, task_key
from streamer.schemas.events import NAMED
from streamer.schemas.provenance import HARNESS_CHANGING, Made, enough_agree, is_contested, side_by_side
from streamer.statistics.final import (
    ALPHA,
    EACH,
    FinalMissing,
    OrderKind,
    Outcome,
    Passes,
    digest,
    lowest,
    prefixes,
    with_gaps,
)
from streamer.statistics.pairs import (
    DIFFERENCE_PREFIXES,
    Attempts,
    ComparisonMissing,
    Ends,
    FinalDifference,
    Pair,
    Pairing,
    Place,
    Task,
    difference_of,
    e_value,
    final_difference,
    grouped,
    least_losses_at_end,
    pairings_of,
    places,
)

# -----------------------------------------------------------------------------
# One side: the trials of an agent, named as pairs are, and their order (inference 7).


def by_place(
    run_id: str, placed: Iterable[tuple[Pairing, int]], planned: int, others: set[int]
) -> list[Pairing | None]:
    """The planned number of trials in order; None stands for an unknown trial.

    Ties go by a hash, never by the name of a task. Places in `others` are left out.
    """
    ordered = sorted(placed, key=lambda at: (at[1], digest(run_id, str(at[0]))))
    gaps = with_gaps([place for _, place in ordered], planned, others)
    return [None if index is None else ordered[index][0] for index in gaps]


class EvidenceMissing(StrEnum):
    """Why no prefix of an order shows anything, so that only the whole plan counts."""

    ORDER_FROM_A_SIDE = "order_from_a_side"
    """The order was made from results of a compared run."""
    ORDER_CHOSEN = "order_chosen"
    """The order was chosen, and its plan does not say from what."""


def evidence_missing(run: RunState, *sides: str) -> EvidenceMissing | None:
    """The reason why evidence may not take its pairs in the order of `run`, or None (inference 5).

    Evidence refutes that neither side is favoured on any task. Only an order made from a side's own
    results can mislead it, so a chosen order has to state its source.
    """
    history = run.plan.get("order_history") or ()
    if set(sides) & set(history):
        return EvidenceMissing.ORDER_FROM_A_SIDE
    is_explained = run.queue.kind is not OrderKind.CHOSEN or bool(history or run.plan.get("order_reason"))
    return None if is_explained else EvidenceMissing.ORDER_CHOSEN


class Contestant:
    """The trials of one agent:model, named as pairs are; `fixed`: nothing more comes, as from a file.

    Where a metric is judged, trials that have `numbers` alone count as known (R31).
    """

    def __init__(
        self,
        run: RunState,
        group: GroupId,
        *,
        fixed: bool = False,
        numbers: bool = False,
        open_states: int | None = None,
    ) -> None:
        run.count()
        self.run, self.group, self._fixed, self._numbers = run, group, fixed, numbers
        self.evidence = run.evidence(group, open_states)
        self._lineup = self.evidence.lineup
        self._rows = np.flatnonzero(self._lineup.states)
        keys = self._lineup.keys()
        self._keys = [keys[row] for row in self._rows.tolist()]
        self.pairings, self.unnumbered = pairings_of(self._keys, run.plan.attempts)
        self.numeric: NDArray[np.bool_] = self._lineup.states[self._rows] & NUMERIC != 0

    @cached_property
    def outcomes(self) -> dict[Pairing, Outcome]:
        """The outcome of every trial that is in, has started, or is planned by name.

        Where the plan only counts its tasks, the attempts seen stand for it.
        """
        outcomes = self.evidence.outcomes()
        rows = zip(self.pairings, self._rows.tolist(), self.numeric.tolist(), strict=True)
        known = {
            one: False if numeric else outcomes[row]
            for one, row, numeric in rows
            if self._numbers or not numeric
        }
        return known | dict.fromkeys(self._waiting())

    @property
    def label(self) -> str:
        return self.group.agent_model or ""

    def with_verdicts(self) -> tuple[list[Pairing], NDArray[np.bool_], NDArray[np.bool_]]:
        rows = self._rows[~self.numeric]
        final, passed = self.evidence.final_and_passed()
        marks = zip(self.pairings, self.numeric.tolist(), strict=True)
        return [one for one, numeric in marks if not numeric], final[rows], passed[rows]

    @property
    def is_sharded(self) -> bool:
        return bool(self._keys and self._keys[0].shard)

    @cached_property
    def _planned(self) -> int | None:
        planned = self.run.denominators().declared(self.group)
        return planned if planned is None or self._numbers else planned - self.evidence.numeric

    @cached_property
    def exceeded(self) -> bool:
        return self._planned is not None and len(self.outcomes) > self._planned

    @property
    def declared(self) -> int | None:
        return None if self.exceeded else self._planned

    def on_numbers(self) -> Contestant:
        if not self.evidence.numeric:
            return self
        return Contestant(self.run, self.group, fixed=self._fixed, numbers=True)

    @property
    def has_verdicts(self) -> bool:
        group = self.run.groups.get(self.group, GroupState())
        return group.as_ruled(self.run.rules.verdicts).has_verdicts

    @property
    def named_metrics(self) -> set[str]:
        return {NAMED + name for name in self.run.groups.get(self.group, GroupState()).named}

    @property
    def known(self) -> int:
        return sum(outcome is not None for outcome in self.outcomes.values())

    @property
    def passed(self) -> int:
        return sum(outcome is True for outcome in self.outcomes.values())

    @property
    def all_named(self) -> bool:
        """Whether `outcomes` lists every trial that will ever count."""
        return self.over or self.declared == len(self.outcomes)

    @property
    def unnamed(self) -> int:
        """Planned tasks that are not in `outcomes`: unknown, also after the end (inference 3)."""
        if self.declared is not None:
            return -(-(self.declared - len(self.outcomes)) // (self.run.plan.attempts or 1))
        named = {one.task_id for one in (*self.outcomes, *self.pairings)}
        return max(0, (self.run.plan.task_count or 0) - len(named))

    @cached_property
    def over(self) -> bool:
        """Whether nothing more is awaited: of a file, of a run that has finished, of a plan that is in."""
        finished = self._fixed or self.run.plan.finished is not None
        return finished or (self.declared is not None and self.declared == self.known)

    def outcome(self, pairing: Pairing) -> Outcome:
        """The outcome of a trial in its pair; None: not final, without a number yet, or not there."""
        return None if pairing in self.unnumbered else self.outcomes.get(pairing)

    @cached_property
    def tasks(self) -> dict[Task, list[Pairing]]:
        return grouped((pairing.task, pairing) for pairing in self.outcomes)

    @cached_property
    def provenance(self) -> dict[Task, dict[str, str]]:
        """What the trials at each task say that they were made with (R36)."""
        said = (((key.tier, key.subtest, key.task_id), of) for key, of in self._lineup.provenance())
        return {task: side_by_side(every) for task, every in grouped(said).items()}

    def made(self, tasks: Iterable[Task]) -> Made:
        said = {name: self.run.plan.get(name) for name in ("harness", "provenance", "varies")}
        return Made.of(said, {task_key(*task): self.provenance.get(task, {}) for task in tasks})

    def attempts(self, task: Task) -> Attempts:
        outcomes = [self.outcomes[pairing] for pairing in self.tasks.get(task, [])]
        unknown = outcomes.count(None)
        return Attempts(len(outcomes) - unknown, outcomes.count(True), unknown)

    def reach(self) -> Ends | None:
        """The final pass rates that are still possible (inference 4); None without a plan before the end."""
        planned = self.declared or (len(self.outcomes) if self.over else 0)
        if not planned:
            return None
        failed = self.known - self.passed
        return Ends(Fraction(self.passed, planned), Fraction(planned - failed, planned))

    def values(self, metric: str) -> dict[Task, list[float]] | None:
        """A metric's values by task, of the trials that have it; None where one is infinite."""
        values, stored = self._lineup.values(metric)[self._rows], self._lineup.stored[self._rows]
        known = stored & ~np.isnan(values)
        pairings = (one for one, is_known in zip(self.pairings, known.tolist(), strict=True) if is_known)
        by_task = grouped(zip((one.task for one in pairings), values[known].tolist(), strict=True))
        return by_task if np.isfinite(values[known]).all() else None

    def mean_cost(self) -> float | None:
        return self.evidence.means("cost_usd").mean()

    @property
    def began(self) -> int:
        """Start of its run, microseconds since 1970; NO_TIME: the plan names none."""
        return microseconds(self.run.plan.get("started_at"))

    @property
    def first_position(self) -> int:
        """The smallest position of its starts; -1: there is no position."""
        return min(self._lineup.positions().values(), default=-1)

    @cached_property
    def placed(self) -> list[tuple[Pairing, int]] | None:
        """Its trials and their positions, as far as they have started; None: one has no position."""
        positions, rows = self._lineup.positions(), self._rows.tolist()
        if not rows or any(row not in positions for row in rows):
            return None
        return [(one, positions[row]) for one, row in zip(self.pairings, rows, strict=True)]

    def order_missing(self) -> FinalMissing | None:
        if self.run.denominators().undeclared(self.group):
            return FinalMissing.PLAN_UNDECLARED_TIERS
        return conclusion(self.evidence, self._planned, self.run.queue).missing

    def ordered(
        self, trials: Collection[Pairing], planned: int, declared: int
    ) -> list[Pairing | None] | None:
        """Some of the trials in order, or None without an order; a None among them may be any trial.

        There are `planned` of them in the end, and the plan itself has `declared`.
        """
        queue, others = self.run.queue, set[int]()
        if queue.has_grown or len(trials) > planned:
            return None
        if queue.places is None:
            if self.placed is None or not self.unnumbered.isdisjoint(trials):
                return None
            placed = [at for at in self.placed if at[0] in trials]
            others = self._lineup.others().union(place for one, place in self.placed if one not in trials)
        else:
            shard = "any" if self.is_sharded else ""
            slots = ((t, SlotKey(shard, t.task_id, t.attempt, "", "", t.tier, t.subtest)) for t in trials)
            placed = [(one, place) for one, slot in slots if (place := queue.place(slot)) is not None]
            if len(placed) < len(trials) or queue.places < declared:
                return None
        return by_place(self.run.run_id, placed, planned, others)

    def _waiting(self) -> Iterator[Pairing]:
        if self._planned is None:
            return
        plan, attempts = self.run.plan, self.run.plan.attempts or 1
        has_subtests = bool(plan.get("subtests")) or any(one.subtest is not None for one in self.pairings)
        named, seen = set(self.pairings), Counter(one.task for one in self.pairings)
        names = [] if has_subtests or not isinstance(plan.get("tasks"), list) else plan.get("tasks")
        planned = [(tier, None, name) for tier in plan.get("tiers") or [None] for name in names]
        for tier, subtest, name in dict.fromkeys((*planned, *seen)):
            every = (Pairing(name, number, tier, subtest) for number in range(1, attempts + 1))
            free = (one for one in every if one not in named)
            yield from islice(free, max(0, attempts - seen[tier, subtest, name]))


# -----------------------------------------------------------------------------
# The trials of a run's agents, task by task: what comparisons are worked out from (inference 7).
#
# Two agents' trials are a pair if they are the same attempt at the same task, of the same tier and subtest.
# Where a harness gives repeats a shard each instead of numbers, `pairings_of` numbers them.


MOST_CELLS = 50_000
"""Agents times trials that are compared: at most some MB in Redis, written at most twice a second."""


class Trials(NamedTuple):
    """Trials of all agents: a row an agent, a column a pair or task; `high` ones passed or still may."""

    planned: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]


Numbers = NDArray[np.int64]


class Apart(NamedTuple):
    """The trials of two agents that may not be compared, [agent, other agent] (R36, inference 10).

    Attributes:
        pairs: the pairs that are left out, [agent, other agent, column].
        missing: pairs that are left out and have no column: attempts at such a task that were not seen.
        left_out: tasks that are left out; of a refused pair all that are common or may be.
        refused: fewer than half of the common tasks remain, so that all are left out.
    """

    pairs: NDArray[np.bool_]
    missing: Numbers
    left_out: Numbers
    refused: NDArray[np.bool_]


class TaskTable:
    """The trials of some agents of a run; the plan is ignored if more pairs were seen (`exceeded`)."""

    def __init__(self, run: RunState, agents: Sequence[GroupId]) -> None:
        open_states, self._queued = run.open_states(), run.queue.places is not None
        self.sides = [Contestant(run, group, open_states=open_states) for group in agents]
        self.columns: dict[Pairing, int] = {}
        trials = [side.with_verdicts() for side in self.sides]
        columns = [[self.columns.setdefault(one, len(self.columns)) for one in these] for these, *_ in trials]
        declared = run.denominators().declared(agents[0])
        self.exceeded = declared is not None and len(self.columns) > declared
        self._attempts = None if self.exceeded or not declared else run.plan.attempts
        self.planned = declared if self._attempts else None
        numbers: dict[Task, int] = {}
        tasks = [numbers.setdefault(one.task, len(numbers)) for one in self.columns]
        self.tasks, self.task_of = list(numbers), np.array(tasks, np.intp)
        shape = (len(agents), len(self.columns))
        self._present, self._final, self._passed = (np.zeros(shape, np.bool_) for _ in range(3))
        for number, (there, (_, final, passed)) in enumerate(zip(columns, trials, strict=True)):
            self._present[number, there] = True
            self._final[number, there] = final
            self._passed[number, there] = passed

    @property
    def planned_tasks(self) -> int:
        return self.planned // self._attempts if self.planned and self._attempts else 0

    def by_pair(self) -> Trials:
        planned = self._present if self._attempts is None else np.ones_like(self._present)
        numbered = np.ones_like(self._present)
        for number, side in enumerate(self.sides):
            numbered[number, [self.columns[one] for one in side.unnumbered]] = False
        low = (self._passed & numbered).astype(np.int32)
        return Trials(planned.astype(np.int32), low, low + planned - (self._final & numbered))

    def by_task(self) -> Trials:
        final, passed, present = map(self._summed, (self._final, self._passed, self._present))
        planned = present if self._attempts is None else np.maximum(present, self._attempts)
        return Trials(planned, passed, passed + planned - final)

    def orders(self) -> list[list[int] | None]:
        """The columns of the pairs in each agent's order; -1 stands for an unknown pair.

        None: the agent has no order. In a run with one queue all agents share one.
        """
        planned, run = self.planned or 0, self.sides[0].run
        self.evidence_missing = evidence_missing(run, run.run_id)
        if not 0 < planned * len(self.sides) <= MOST_CELLS or self.evidence_missing:
            return [None] * len(self.sides)
        numbers: dict[Pairing | None, int] = {None: -1} | dict(self.columns.items())
        sides = [max(self.sides, key=lambda side: side.is_sharded)] if self._queued else self.sides
        ordered = (side.ordered(self.columns, planned, planned) for side in sides)
        orders = [None if one is None else [numbers[pairing] for pairing in one] for one in ordered]
        return orders * (len(self.sides) // len(orders))

    def fields(self) -> dict[str, str]:
        """Task to the JSON of {agent:model: [known, passed, unknown]}, of agents with trials.

        A fourth value is what the trials say they were made with, field by field (R36).
        """
        planned, low, high = self.by_task()
        cells = np.stack([planned - high + low, low, high - low], axis=2)
        fields: dict[Task, dict[str, list[Any]]] = {task: {} for task in self.tasks}
        for side, row, present in zip(self.sides, cells, self._summed(self._present), strict=True):
            label, tasks = side.label, np.flatnonzero(present)
            for task, cell in zip(tasks.tolist(), row[tasks].tolist(), strict=True):
                fields[self.tasks[task]][label] = cell
            for name, provenance in side.provenance.items():
                fields.setdefault(name, {}).setdefault(label, [0, 0, 0]).append(provenance)
        return {task_key(*task): canonical_json(counts).decode() for task, counts in fields.items()}

    def apart(self) -> Apart | None:
        """The tasks at which the results of two agents were made in different ways, or None.

        A task without a result of one of the agents is not among them.
        """
        if not any(side.provenance for side in self.sides):
            return None
        sides = [side.made(self.tasks) for side in self.sides]
        contested = HARNESS_CHANGING.difference(sides[0].varies)
        fields = sorted(name for name in contested if is_contested(name, sides))
        differ = np.zeros((len(sides), len(sides), len(self.tasks)), np.bool_)
        results = self._summed(self._final) > 0
        for name in fields:
            codes: dict[str | None, int] = {None: 0}
            values = [[one.value(task, name) for task in one.tasks] for one in sides]
            of = np.array([[codes.setdefault(value, len(codes)) for value in row] for row in values])
            known = results & (of > 0)
            differ |= known[:, None] & known[None, :] & (of[:, None] != of[None, :])
        if not differ.any():
            return None
        left_out = differ.sum(axis=2)
        awaited = self.planned_tasks if self.sides[0].run.plan.finished is None else 0
        common = np.maximum(_together(results), awaited)
        refused = ~np.vectorize(enough_agree, otypes=[np.bool_])(left_out, common)
        differ[refused] = True
        pairs = differ[:, :, self.task_of]
        missing = np.maximum(0, left_out * (self._attempts or 0) - pairs.sum(axis=2))
        return Apart(pairs, missing, np.where(refused, common, left_out), refused)

    def _summed(self, cells: NDArray[np.bool_]) -> NDArray[np.int32]:
        sums = np.zeros((len(cells), len(self.tasks)), np.int32)
        for number, row in enumerate(cells):
            sums[number] = np.bincount(self.task_of[row], minlength=len(self.tasks))
        return sums


# -----------------------------------------------------------------------------
# Wins and losses of every two agents, in all and in prefixes of the order (inference 7).


class PairCounts(NamedTuple):
    """Counts of every two agents, [agent, other agent, prefix]; the last prefix is all that is planned.

    Won pairs are certain, and are among the pairs that can be won. The second agent's wins are the first
    one's losses.
    """

    won: Numbers
    can_win: Numbers


def pair_counts(
    trials: Trials,
    unseen: int,
    orders: Sequence[list[int] | None],
    later: NDArray[np.bool_],
    sizes: Sequence[int],
    apart: Apart | None = None,
) -> PairCounts:
    """Count in prefixes of the order of the side that began later.

    Args:
        unseen: planned columns of which nothing is known; they may be won by either side.
        orders: the columns of each agent in order, -1 for an unknown one; None: only the last prefix counts.
    """
    agents = len(trials.low)
    won, can_win = (np.zeros((agents, agents, len(sizes)), np.int64) for _ in range(2))
    can_win[:, :, :-1] = np.array(sizes[:-1])  # without an order everything may still come
    padded = [
        np.pad(part, ((0, 0), (0, 1)), constant_values=end)
        for part, end in zip(trials, (1, 0, 1), strict=True)
    ]
    counted = None if apart is None else np.pad(~apart.pairs, ((0, 0), (0, 0), (0, 1)), constant_values=True)
    for agent in range(agents):
        others = np.flatnonzero(later[agent])
        order = orders[agent]
        if order is not None and len(others):
            columns = np.array((order + [-1] * sizes[-1])[: sizes[-1]], np.intp)
            ours, theirs = ([part[who][:, columns] for part in padded] for who in ([agent], others))
            ends = np.array(sizes[:-1], np.intp) - 1
            for first, second, one, two in ((agent, others, ours, theirs), (others, agent, theirs, ours)):
                sure, possible = _wins(one, two)
                if counted is not None:
                    both = counted[agent, others][:, columns]
                    sure, possible = sure & both, possible & both
                won[first, second, :-1] = np.cumsum(sure, axis=1)[:, ends]
                can_win[first, second, :-1] = np.cumsum(possible, axis=1)[:, ends]
        sure, possible = _wins([part[[agent]] for part in trials], trials)
        if apart is not None:
            sure, possible = sure & ~apart.pairs[agent], possible & ~apart.pairs[agent]
        won[agent, :, -1] = sure.sum(axis=1)
        can_win[agent, :, -1] = possible.sum(axis=1) + unseen
    if apart is not None:
        can_win[:, :, -1] -= apart.missing
        won[apart.refused] = can_win[apart.refused] = 0
    return PairCounts(won, can_win)


def _together(cells: NDArray[np.bool_], apart: Apart | None = None) -> Numbers:
    """The number of columns, without those apart, in which both agents have a mark.

    Products of floats are fast, and exact here. `marks @ marks.T` would start threads on all cores.
    """
    marks = cells.astype(np.float64)
    counts: Numbers = np.einsum("ac,bc->ab", marks, marks).astype(np.int64)
    if apart is not None:
        pairs = zip(cells, apart.pairs, strict=True)
        counts -= np.array([(cells & ours & left_out).sum(axis=1) for ours, left_out in pairs])
    return counts


def _wins(
    ours: Sequence[NDArray[np.int32]], theirs: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Columns where we pass more often for certain, and where we may in the end.

    Neither side wins a column with unequal attempts, for the reason that `PairedTask.won` gives.
    """
    (planned, low, high), (other_planned, other_low, other_high) = ours, theirs
    even = planned == other_planned
    return even & (low > other_high), even & (high > other_low)


# -----------------------------------------------------------------------------
# Every two agents of a run, counted and ranked (inference 7).


MOST_RANKED_TASKS = 10_000
"""Tasks of the largest plan whose agents are ranked."""


class ComparisonTable(TaskTable):
    """The counts of every two agents of a run. `evidence` is None while a run without a plan goes on."""

    def __init__(
        self, run: RunState, agents: Sequence[GroupId], final_missing: Mapping[GroupId, str | None]
    ) -> None:
        super().__init__(run, agents)
        self._final_missing = [final_missing.get(agent, FinalMissing.NOTHING_YET) for agent in agents]
        self._by_pair, columns = self.by_pair(), len(self.columns)
        self._sizes = prefixes(self.planned or max(1, columns))
        self._later, self._orders = self._began_later(), self.orders()
        unseen = (self.planned or columns) - columns
        self._apart = self.apart()
        orders, apart = self._orders, self._apart
        self._counts = pair_counts(self._by_pair, unseen, orders, self._later, self._sizes, apart)
        planned, low, high = self._by_pair
        final = (planned > 0) & (low == high)
        self._final_pairs = _together(final, apart)
        self._pairs = _together(planned > 0, apart)
        if self.planned is not None:
            self._pairs += self.planned - _together(planned > 0)
        if apart is not None:
            self._pairs -= apart.missing
            self._pairs[apart.refused] = 0
        sure = self.planned is not None or run.plan.finished is not None
        self.ended = sure and columns > 0 and bool((self._final_pairs == self._pairs).all())
        self.evidence = None if self.planned is None and not self.ended else pair_evidence(self._counts)

    def pairs(self) -> list[dict[str, Any]]:
        """Counts of every two agents, the interval of their final difference, and the evidence."""
        won = self._counts.won[:, :, -1].tolist()
        final_counts, pairs = self._final_pairs.tolist(), self._pairs.tolist()
        rows = []
        for a, b in combinations(range(len(self.sides)), 2):
            wins, losses = won[a][b], won[b][a]
            final, missing = self._final_ends(a, b)
            left_out = 0 if self._apart is None else int(self._apart.left_out[a, b])
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
                | ({"left_out": left_out} if left_out else {})
            )
        return rows

    def ranks(self, labels: list[str]) -> tuple[dict[str, Place] | None, str | None]:
        """The places of all agents, or why there are none."""
        tasks = self.planned_tasks or len(self.tasks)
        if self.evidence is None:
            reason = ComparisonMissing.PLAN_EXCEEDED if self.exceeded else ComparisonMissing.NO_PLAN
            return None, reason
        if tasks > MOST_RANKED_TASKS:
            return None, ComparisonMissing.TOO_MANY_TRIALS
        if not self.ended:
            return ranks_so_far(labels, self.evidence), None
        return ranks_at_end(labels, self._by_pair, self.task_of, self._apart), None

    def _began_later(self) -> NDArray[np.bool_]:
        first = [-1 if self._queued or side.placed is None else side.first_position for side in self.sides]
        turn = np.argsort(np.argsort(np.array(first), kind="stable"))
        later: NDArray[np.bool_] = turn[:, None] > turn[None, :]
        return later

    def _final_ends(self, a: int, b: int) -> tuple[FinalDifference | None, str | None]:
        later = a if self._later[a, b] else b
        if reason := self._final_missing[a] or self._final_missing[b]:
            is_listed = self._orders[later] is not None or self.evidence_missing is not None
            is_chosen = reason == FinalMissing.ORDER_CHOSEN and self.planned is not None
            return None, reason if is_listed or not is_chosen else FinalMissing.ORDER_UNKNOWN_IN_PART
        if self.planned is None:
            return None, FinalMissing.PLAN_EXCEEDED if self.exceeded else FinalMissing.NO_PLAN
        if (order := self._orders[later]) is None:
            return None, FinalMissing.ORDER_UNKNOWN_IN_PART
        if self._apart is not None and self._apart.left_out[a, b]:
            if self._apart.refused[a, b]:
                return None, FinalMissing.NOTHING_YET  # and no pair will ever be
            difference = self._difference_without(self._apart.pairs[a, b], order, a, b)
        else:
            difference = difference_of(self._possible_wins[a][b], self._possible_wins[b][a])
        return (None, FinalMissing.EMPTY) if difference.empty else (difference, None)

    def _difference_without(
        self, left_out: NDArray[np.bool_], order: Sequence[int], a: int, b: int
    ) -> FinalDifference:

        def outcome(side: int, column: int) -> bool | None:
            low, high = int(self._by_pair.low[side, column]), int(self._by_pair.high[side, column])
            return bool(low) if low == high else None

        pairs = {
            column: Pair(outcome(a, column), outcome(b, column))
            for column in np.flatnonzero(~left_out).tolist()
        }
        listed = pairs | {-1: Pair(None, None)}
        ordered = [listed[column] for column in order if column in listed]
        planned = int(self._pairs[a, b])
        return final_difference(ordered[:planned], planned, every=list(pairs.values()))

    @cached_property
    def _possible_wins(self) -> list[list[Passes]]:
        planned = self.planned or 1
        sizes = prefixes(planned, DIFFERENCE_PREFIXES)
        won, can_win = (part[:, :, np.isin(self._sizes, sizes)] for part in self._counts)
        low = _lowest(planned, sizes, won).tolist()
        high = (planned - _lowest(planned, sizes, np.array(sizes) - can_win)).tolist()
        return [
            [Passes(*ends, planned) for ends in zip(*rows, strict=True)]
            for rows in zip(low, high, strict=True)
        ]


class EvidenceTable(NamedTuple):
    """The evidence about every two agents while a run goes on, [agent, other agent].

    `worse` is the evidence that the first agent is worse, at least 1.
    """

    worse: NDArray[np.float64]
    behind: NDArray[np.bool_]

    def between(self, a: int, b: int) -> dict[str, Any]:
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


def ranks_at_end(
    labels: Sequence[str], trials: Trials, tasks: ArrayLike, apart: Apart | None = None
) -> dict[str, Place]:
    """The ranks of all agents by the sign test over tasks, at the end of a run.

    An agent wins a task by passing it more often in the attempts that both have. It ranks behind another
    one only if it also passes less often in all trials of the common tasks.
    """
    order = np.argsort(tasks, kind="stable")
    first = np.flatnonzero(np.diff(np.asarray(tasks)[order], prepend=-1))
    there, passed = (part[:, order].astype(np.int64) for part in (trials.planned > 0, trials.low))
    all_there, all_passed = (np.add.reduceat(part, first, axis=1) for part in (there, passed))
    count = len(labels)
    won, passes, planned = (np.zeros((count, count), np.int64) for _ in range(3))
    for agent in range(count):
        ours = np.add.reduceat(passed[agent] * there, first, axis=1)
        theirs = np.add.reduceat(passed * there[agent], first, axis=1)
        common = all_there > 0
        if apart is not None:
            common &= ~apart.pairs[agent][:, order][:, first]
        won[agent] = ((ours > theirs) & common).sum(axis=1)
        passes[agent] = (all_passed[agent] * common).sum(axis=1)
        planned[agent] = (all_there[agent] * common).sum(axis=1)
    behind = passes * planned.T < passes.T * planned

    def shown(level: Fraction) -> list[tuple[str, str]]:
        least = _least_losses(1 << len(first).bit_length(), level)
        worse = (least[won + won.T] <= won.T) & behind
        return [(labels[one], labels[other]) for one, other in np.argwhere(worse).tolist()]

    return places(labels, shown, EACH)


def _lowest(planned: int, sizes: Sequence[int], passed: Numbers) -> Numbers:
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
    """The comparison of a run, and its tasks, each with what was taken last.

    The run's `summaries` must be worked out first. `tasks_taken` is None before the first time.
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
        return [change for change in [self._now()[0]] if change.value is not None]

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of the comparison, if it was taken and not withdrawn."""
        return [(COMPARISON.kind, COMPARISON.topic_key(self._run.run_id))] if self._taken else []

    def tasks(self) -> dict[str, str]:
        self._run.count()
        trials = self._now()[1]
        return trials.fields() if trials else {}

    def _now(self) -> tuple[SummaryChange, TaskTable | None]:
        run = self._run
        agents = compared_agents(run)
        body, trials = compared(run, agents, self._summaries.final_missing) if agents else (None, None)
        return sealed(run, COMPARISON, body, self._epoch, self._made_with), trials


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
        "evidence_missing": None,
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
    told["evidence_missing"] = table.evidence_missing
    return body | told | {"pairs": table.pairs()}, table


def _has_verdicts(run: RunState, group_id: GroupId) -> bool:
    return not run.scores.roster.lineup(group_id).count_any(NUMERIC)


def _agent(group: GroupId) -> dict[str, Any]:
    return {"agent_model": group.agent_model, "agent": group.agent, "model": group.model, "rank": None}


def _without(reason: ComparisonMissing) -> dict[str, Any]:
    return {"missing": reason, "rank_missing": reason}
