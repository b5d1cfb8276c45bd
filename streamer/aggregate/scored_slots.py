"""Slots of a run, and everything derived from what stands in them: scores, groups, totals.

Scores, groups and totals could be derived again from the slots and the plan at any time; here they
follow every change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from schemas.decode import decode
from schemas.events import TrialResult
from streamer.aggregate.group import GroupState
from streamer.aggregate.plan import Plan
from streamer.aggregate.slots import GroupKey, Slot, SlotKey, slot_key
from streamer.aggregate.totals import Outcome, RunTotals
from streamer.score import (
    GradingProfile,
    PriceTable,
    Scored,
    deciding_sub_trial,
    grading_profile,
    score_trial,
    score_trial_group,
)

GroupId = tuple[str | None, str | None, str | None]
"""(tier, agent, model): (None, a, m) an agent:model, (t, None, None) a tier, (t, a, m) one in the other."""


class Rescoring:
    """A trial already counted whose score another trial's event moved (R9)."""

    __slots__ = ("after", "because", "before", "key")

    def __init__(self, key: SlotKey, because: SlotKey, before: Scored, after: Scored) -> None:
        self.key, self.because, self.before, self.after = key, because, before, after


class ScoredSlots:
    """Slots with their scores counted in groups and totals.

    Attributes:
        dirty: groups to summarise again.
        rescored: slots whose scored trial changed since it was last drained.
        rescorings: news of trials that another trial's event moved.
        unsaved: slots whose state page is out of date.
    """

    def __init__(self, prices: PriceTable) -> None:
        self.plan = Plan()
        self.profile: GradingProfile = grading_profile(None)
        self.slots: dict[SlotKey, Slot] = {}
        self.groups: dict[GroupId, GroupState] = {}
        self.totals = RunTotals()
        self.superseded = 0
        self.conflicts = 0
        self.dirty: set[GroupId] = set()
        self.rescored: dict[SlotKey, None] = {}
        self.rescorings: list[Rescoring] = []
        self.unsaved: dict[SlotKey, None] = {}
        self._prices = prices
        self._members: dict[GroupKey, set[SlotKey]] = {}
        self._outcomes: dict[GroupKey, Outcome] = {}

    def is_baseline(self, agent: str) -> bool:
        """See :meth:`Plan.is_baseline`."""
        return self.plan.is_baseline(agent)

    def rederive(self) -> None:
        """Score everything again and rebuild groups and totals from the slots."""
        self.dirty.update(self.groups)
        self.profile = grading_profile(self.plan.get("grading_profile"))
        self.groups, self.totals = {}, RunTotals()
        self.superseded = self.conflicts = 0
        self._members, self._outcomes = {}, {}
        for key, slot in self.slots.items():
            slot.scored = None
            if slot.agent_index is not None:
                self._members.setdefault(_group_of(key), set()).add(key)
        for key, slot in self.slots.items():
            if slot.winner is not None and slot.agent_index is None:
                self._settle_single(key, slot, None)
        for group in list(self._members):
            self._settle_group(group, None)
        for key, slot in self.slots.items():
            self._mark(key, slot, 1)

    def change_slot(
        self, key: SlotKey, change: Callable[[Slot], bool], event: TrialResult | None = None
    ) -> bool:
        """Change a slot and everything derived from it; False if there was no news."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot()
        stood, index = slot.winner, slot.agent_index
        marked = slot.superseded, slot.in_conflict
        self._mark(key, slot, -1)
        changed = change(slot)
        if changed and (slot.winner and slot.winner[2]) != (stood and stood[2]):
            self._resettle(key, slot, index, event)
        self._mark(key, slot, 1)
        if changed:
            self.unsaved[key] = None
            if slot.winner != stood:
                self.rescored[key] = None
            if marked != (slot.superseded, slot.in_conflict):
                self.dirty.update(self.group_ids(key))
        elif slot.winner is None and slot.floor is None:
            del self.slots[key]
        return changed

    def _resettle(self, key: SlotKey, slot: Slot, index: int | None, event: TrialResult | None) -> None:
        """Another result stands in the slot, or none: score again whatever that concerns."""
        group = _group_of(key)
        if index is not None:
            self._members[group].discard(key)
        elif slot.scored is not None:
            self._count_single(key, slot, -1)
        if slot.winner is None or slot.agent_index != index:
            self._swap(key, slot, None)
        if slot.winner is not None and slot.agent_index is None:
            self._settle_single(key, slot, event)
        elif slot.winner is not None:
            self._members.setdefault(group, set()).add(key)
        if index is not None or slot.agent_index is not None:
            self._settle_group(group, key)
        self.rescored[key] = None

    def _settle_single(self, key: SlotKey, slot: Slot, event: TrialResult | None) -> None:
        self._swap(key, slot, score_trial(event or event_in(slot), self.profile, self._prices))
        self._count_single(key, slot, 1)

    def _count_single(self, key: SlotKey, slot: Slot, sign: int) -> None:
        if slot.scored is not None:
            self.totals.count_outcome(self._outcome(key, slot.scored), sign)

    def _outcome(self, key: SlotKey, scored: Scored) -> Outcome:
        """Outcome of the trial that this slot is, or decides."""
        percentage = scored.formulacode.speedup_percentage if scored.formulacode else None
        return Outcome(key[1], scored.resolved, scored.failure_mode, percentage, not self.is_baseline(key[3]))

    def _settle_group(self, group: GroupKey, because: SlotKey | None) -> None:
        """Score all sub-trials of a trial group again (R9, R10)."""
        counted = self._outcomes.pop(group, None)
        if counted is not None:
            self.totals.count_outcome(counted, -1)
        keys = sorted(self._members.get(group, ()), key=str)
        if not keys:
            self._members.pop(group, None)
            return
        events = [event_in(self.slots[key]) for key in keys]
        scores = score_trial_group(events, self.profile, self._prices, self.is_baseline)
        for key, scored in zip(keys, scores, strict=True):
            before = self.slots[key].scored
            if before == scored:
                continue
            if because is not None and key != because and before is not None:
                self.rescorings.append(Rescoring(key, because, before, scored))
            self._swap(key, self.slots[key], scored)
        decides = slot_key(deciding_sub_trial(events, self.is_baseline) or events[0])
        outcome = self._outcome(decides, scores[keys.index(decides)])
        self.totals.count_outcome(outcome, 1)
        self._outcomes[group] = outcome

    def _swap(self, key: SlotKey, slot: Slot, scored: Scored | None) -> None:
        """Replace the slot's score in every group it counts in."""
        old, slot.scored = slot.scored, scored
        new = slot.scored
        if old is None and new is None:
            return
        for group_id in self.group_ids(key):
            group = self.groups.get(group_id)
            if group is None:
                group = self.groups[group_id] = GroupState()
            if old is not None:
                group.remove(key, old)
            if new is not None:
                group.add(key, new)
            if not group.trials:
                del self.groups[group_id]
            self.dirty.add(group_id)
        if old is not None:
            self.totals.count_slot(old, -1)
        if new is not None:
            self.totals.count_slot(new, 1)
        self.rescored[key] = None

    def _mark(self, key: SlotKey, slot: Slot, sign: int) -> None:
        """Count the slot's losers and conflict where the slot counts."""
        superseded, conflict = slot.superseded, slot.in_conflict
        if not superseded and not conflict:
            return
        self.superseded += sign * superseded
        self.conflicts += sign * conflict
        for group_id in self.group_ids(key):
            group = self.groups.get(group_id)
            if group is not None:
                group.superseded += sign * superseded
                group.conflicts += sign * conflict

    def group_ids(self, key: SlotKey) -> Iterable[GroupId]:
        """The groups that a slot counts in; baselines stay out of pooled tiers (R4)."""
        agent, model, tier = key[3], key[4], key[5]
        if tier is None:
            return ((None, agent, model),)
        if self.is_baseline(agent):
            return ((None, agent, model), (tier, agent, model))
        return ((None, agent, model), (tier, agent, model), (tier, None, None))


def _group_of(key: SlotKey) -> GroupKey:
    return (key[0], key[1], key[2], key[5], key[6])


def event_in(slot: Slot) -> TrialResult:
    """The event of the result that stands in a slot."""
    event = decode(slot.raw)
    if not isinstance(event, TrialResult):  # pragma: no cover - raw was decoded before it was stored
        raise TypeError(f"a slot holds something that is not a trial_result: {event}")
    return event
