"""Slots of a run, and everything derived from what stands in them: scores, groups, totals.

Scores, groups and totals could be derived again from the slots and the plan at any time; here they
follow every change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from schemas.plain import AnyTrial
from streamer.aggregate.counted import CountedTrials, GroupId, group_ids
from streamer.aggregate.group import GroupState
from streamer.aggregate.plan import Plan
from streamer.aggregate.scored_json import scored_json
from streamer.aggregate.slots import GroupKey, Slot, SlotKey, event_of, fingerprint, slot_key
from streamer.aggregate.totals import Outcome, RunTotals
from streamer.score import (
    NOP,
    FormulaCodeScore,
    PriceTable,
    Scored,
    ScoringRules,
    deciding_sub_trial,
    missing_score,
    score_trial,
    score_trial_group,
)

_FRESH = 10_000
"""So many scored trials at most are written at once, while all that they need is at hand."""

_SMALL_BYTES = 2048
"""And those of small events without FormulaCode's sections alone: 2 KiB each at most, mostly 700 bytes."""


class Rescoring:
    """A trial already counted whose score another trial's event moved (R9)."""

    __slots__ = ("after", "because", "before", "key")

    def __init__(self, key: SlotKey, because: SlotKey, before: Scored, after: Scored) -> None:
        self.key, self.because, self.before, self.after = key, because, before, after


class ScoredSlots:
    """Slots with their scores counted in groups and totals.

    Scores wait in columns until somebody asks for groups or totals, which are then brought up to date at
    once: that costs a tenth of counting every score as it comes.

    Attributes:
        tracked: whether changes are noted for a cut; False where nobody will cut.
        saved: whether they are noted for state pages; False where nobody keeps those.
        dirty: groups to summarise again.
        rescored: slots whose scored trial changed since it was last drained; with the scored trial itself
            (`scored_json`) if it was written at once.
        rules: what the trials are scored by.
        rescorings: news of trials that another trial's event moved.
        unsaved: slots whose state page is out of date.
    """

    def __init__(self, run_id: str, prices: PriceTable) -> None:
        self.run_id = run_id
        self.plan = Plan()
        self.rules = ScoringRules(prices)
        self.slots: dict[SlotKey, Slot] = {}
        self.tracked = True
        self.saved = True
        self.superseded = 0
        self.conflicts = 0
        self.dirty: set[GroupId] = set()
        self.rescored: dict[SlotKey, bytes | None] = {}
        self.rescorings: list[Rescoring] = []
        self.unsaved: dict[SlotKey, None] = {}
        self._members: dict[GroupKey, set[SlotKey]] = {}
        self._of_missing: dict[GroupKey, FormulaCodeScore] = {}
        self._outcomes: dict[GroupKey, Outcome] = {}
        self._counted = CountedTrials()

    @property
    def groups(self) -> dict[GroupId, GroupState]:
        """Every group that has trials, up to date."""
        self.settle()
        return self._counted.groups

    @property
    def totals(self) -> RunTotals:
        """Totals of the run, up to date."""
        self.settle()
        return self._counted.totals

    def is_baseline(self, agent: str) -> bool:
        """See :meth:`~streamer.score.ScoringRules.is_baseline`."""
        return self.rules.is_baseline(agent)

    @property
    def uncounted(self) -> int:
        """How many trials wait to be counted, or to be taken back."""
        return self._counted.waiting

    def score_of(self, slot: Slot) -> Scored | None:
        """Score of what stands in a slot, None while it is empty."""
        if slot.scored is not None or slot.revision is None:
            return slot.scored
        return score_trial(event_of(slot.raw), self.rules)

    def rederive(self) -> None:
        """Score everything again and rebuild groups and totals from the slots."""
        self.dirty.update(self.groups)
        self.rules = self.plan.scoring_rules(self.rules.prices)
        self._counted = CountedTrials()
        self.superseded = self.conflicts = 0
        self._members, self._outcomes, self._of_missing = {}, {}, {}
        for key, slot in self.slots.items():
            slot.scored = None
            if slot.agent_index is not None:
                self._members.setdefault(_group_of(key), set()).add(key)
            elif (scored := self.score_of(slot)) is not None:
                self._enter(key, scored)
        for group in list(self._members):
            self._settle_group(group, None)
        for key, slot in self.slots.items():
            self._mark(key, slot.superseded, slot.in_conflict)

    def fill_slot(self, key: SlotKey, slot: Slot, event: AnyTrial, *, live: bool) -> None:
        """A result stands in a slot that held nothing before; `live`: its scored trial will be cut soon."""
        if self.saved:
            self.unsaved[key] = None
        if event.agent_index is not None:
            slot.agent_index = event.agent_index
            self._members.setdefault(_group_of(key), set()).add(key)
            self._settle_group(_group_of(key), key)
            return
        scored = score_trial(event, self.rules)
        self._enter(key, scored)
        at_hand = live and self.tracked and len(self.rescored) < _FRESH and len(slot.raw) <= _SMALL_BYTES
        if at_hand and scored.formulacode is None:
            print_ = fingerprint(event)
            self.rescored[key] = scored_json(self.run_id, self.rules.profile, key, slot, scored, print_)

    def change_slot(
        self, key: SlotKey, change: Callable[[Slot], bool], event: AnyTrial | None = None
    ) -> bool:
        """Change a slot and everything derived from it; False if there was no news."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot()
        raw, index, stood = slot.raw, slot.agent_index, slot.winner
        superseded, conflict = slot.superseded, slot.in_conflict
        changed = change(slot)
        if changed:
            self._outdate(key)
            if slot.winner != stood:
                self._note(key)
            if (slot.winner and slot.winner[2]) != (stood and stood[2]):
                self._resettle(key, slot, raw, index, event)
            if (superseded, conflict) != (slot.superseded, slot.in_conflict):
                self._mark(key, slot.superseded - superseded, slot.in_conflict - conflict)
                self.dirty.update(self.group_ids(key))
        elif slot.revision is None and slot.floor is None:
            del self.slots[key]
        return changed

    def _resettle(
        self, key: SlotKey, slot: Slot, raw: bytes, index: int | None, event: AnyTrial | None
    ) -> None:
        """Another result stands in the slot, or none: score again whatever that concerns.

        Args:
            raw: the event that stood in it before, empty if none did.
            index: that event's position in a multi-agent trial.
            event: the event that stands in it now, if it is at hand.
        """
        group = _group_of(key)
        if index is not None:
            self._members[group].discard(key)
            if slot.agent_index is None:
                self._swap(key, slot, None)
        elif raw:
            self._leave(key, score_trial(event_of(raw), self.rules))
        if slot.revision is not None and slot.agent_index is None:
            self._enter(key, score_trial(event or event_of(slot.raw), self.rules))
        elif slot.agent_index is not None:
            self._members.setdefault(group, set()).add(key)
        if index is not None or slot.agent_index is not None:
            self._settle_group(group, key)
        self._note(key)

    def _enter(self, key: SlotKey, scored: Scored) -> None:
        """A trial of its own is in."""
        if self.tracked:
            self.rescored[key] = None
        if self._counted.enter(key, scored, single=True):
            self.settle()

    def _leave(self, key: SlotKey, scored: Scored) -> None:
        """A trial of its own is no more."""
        self._counted.leave(key, scored, single=True)
        self._note(key)

    def _settle_group(self, group: GroupKey, because: SlotKey | None) -> None:
        """Score all sub-trials of a trial group again (R9, R10)."""
        self._of_missing.pop(group, None)
        counted = self._outcomes.pop(group, None)
        if counted is not None:
            self._counted.totals.count_outcome(counted, -1)
        keys = sorted(self._members.get(group, ()), key=str)
        if not keys:
            self._members.pop(group, None)
            return
        events = [event_of(self.slots[key].raw) for key in keys]
        scores = score_trial_group(events, self.rules)
        for key, scored in zip(keys, scores, strict=True):
            before = self.slots[key].scored
            if before == scored:
                if scored.formulacode is not None and scored.formulacode.fallback:
                    self._note(key)  # its payload lists the benchmarks that the others know
                continue
            if because is not None and key != because and before is not None:
                self.rescorings.append(Rescoring(key, because, before, scored))
            self._swap(key, self.slots[key], scored)
        decides = slot_key(deciding_sub_trial(events, self.is_baseline) or events[0])
        outcome = self._outcome(decides, scores[keys.index(decides)])
        self._counted.totals.count_outcome(outcome, 1)
        self._outcomes[group] = outcome

    def _outcome(self, key: SlotKey, scored: Scored) -> Outcome:
        """Outcome of the trial that this sub-trial decides."""
        measured = scored.formulacode
        return Outcome(
            task_id=key[1],
            tier=key[5],
            resolved=scored.resolved,
            failure_mode=scored.failure_mode,
            speedup_percentage=measured.speedup_percentage if measured else None,
            compared=not self.is_baseline(key[3]),
            infrastructure_failure=scored.infrastructure_failure,
            with_benchmarks=measured is not None and measured.num_benchmarks > 0,
            unmeasured_failure=not scored.success and measured is None and key[3] != NOP,
        )

    def _swap(self, key: SlotKey, slot: Slot, scored: Scored | None) -> None:
        """Replace a sub-trial's score."""
        old, slot.scored = slot.scored, scored
        if old is not None:
            self._counted.leave(key, old, single=False)
        if scored is not None:
            self._counted.enter(key, scored, single=False)
        self._note(key)

    def trial_group(self, key: SlotKey) -> list[AnyTrial]:
        """The sub-trials of the trial that a slot belongs to, itself among them (R10)."""
        keys = {key} if self.slots[key].agent_index is None else self._members[_group_of(key)]
        return [event_of(self.slots[member].raw) for member in sorted(keys, key=str)]

    def trial_groups(self) -> Mapping[GroupKey, Collection[SlotKey]]:
        """The slots of each multi-agent trial."""
        return self._members

    def score_of_missing(self, group: GroupKey) -> FormulaCodeScore:
        """FormulaCode's score of a planned agent that has no sub-trial in a trial (R21)."""
        if group not in self._of_missing:
            events = [event_of(self.slots[key].raw) for key in self._members[group]]
            self._of_missing[group] = missing_score(events)
        return self._of_missing[group]

    def _outdate(self, key: SlotKey) -> None:
        """The state page of a slot is out of date."""
        if self.saved:
            self.unsaved[key] = None

    def _note(self, key: SlotKey) -> None:
        """The scored trial of a slot changed."""
        if self.tracked:
            self.rescored[key] = None

    def rescored_alone(self, keys: Collection[SlotKey]) -> None:
        """Of all scored trials only those of these slots, and of their trial groups, are to be drained."""
        groups = (self._members.get(_group_of(key), ()) for key in keys)
        self.rescored = dict.fromkeys([*keys, *chain.from_iterable(groups)])

    def _mark(self, key: SlotKey, superseded: int, conflicts: int) -> None:
        """Count losers and conflicts where the slot counts."""
        if not superseded and not conflicts:
            return
        self.superseded += superseded
        self.conflicts += conflicts
        for group_id in self.group_ids(key):
            self._counted.mark(group_id, superseded, conflicts)

    def settle(self) -> None:
        """Count what waits."""
        if self._counted.waiting:
            self.dirty |= self._counted.settle(self.is_baseline)

    def group_ids(self, key: SlotKey) -> Iterable[GroupId]:
        """The groups that a slot counts in; baselines stay out of pooled tiers (R4)."""
        return group_ids(key[3], key[4], key[5], self.is_baseline)


def _group_of(key: SlotKey) -> GroupKey:
    return (key[0], key[1], key[2], key[5], key[6])
