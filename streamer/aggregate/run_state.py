"""State of one run: slots, and the groups derived from what stands in them. Pure.

Slots and plan are a join; everything else here is derived from them and could be derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from schemas.decode import decode
from schemas.events import (
    AnyEvent,
    RunDeleted,
    RunFinished,
    RunStarted,
    TrialResult,
    TrialRetracted,
)
from streamer.aggregate.group import GroupState
from streamer.aggregate.plan import Plan
from streamer.aggregate.slots import (
    NO_TIME,
    GroupKey,
    Slot,
    SlotKey,
    fingerprint,
    microseconds,
    slot_key,
)
from streamer.aggregate.totals import Outcome, RunTotals
from streamer.score import (
    GradingProfile,
    PriceTable,
    Scored,
    grading_profile,
    group_resolved,
    score_trial,
    score_trial_group,
)

GroupId = tuple[str | None, str | None, str | None]
"""(tier, agent, model): (None, a, m) an agent:model, (t, None, None) a tier, (t, a, m) the one within the other."""

_REDERIVING = frozenset({"grading_profile", "baselines"})
"""Plan fields that change scores or who is compared."""

_EARLIEST_TIME, _LATEST_TIME = 946_684_800 * 10**9, 7_258_118_400 * 10**9
"""Revisions between 2000 and 2200 in ns are taken for times of writing."""


class Effect(StrEnum):
    """What an event did to the run."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    IGNORED = "ignored"


class Rescoring:
    """A trial already counted whose score another trial's event moved (R9)."""

    __slots__ = ("after", "because", "before", "key")

    def __init__(self, key: SlotKey, because: SlotKey, before: Scored, after: Scored) -> None:
        self.key, self.because, self.before, self.after = key, because, before, after


class RunState:
    """One run: apply events, then ask `streamer.aggregate.cut` what changed.

    Attributes:
        state_version: offset of the last event folded, -1 for none.
        last_event_at: greatest event time folded, microseconds.
        deleted_to: events up to this revision are ignored, None if the run was never deleted.
        dirty: groups to summarise again.
        rescored: slots whose scored trial changed since it was last drained.
        unsaved: slots whose state page is out of date.
        plan_unsaved: True if the run's own page is out of date.
        pages_outdated: True if slots vanished (the run was deleted), so that every page is out of date.
    """

    def __init__(self, run_id: str, prices: PriceTable) -> None:
        self.run_id = run_id
        self.state_version = -1
        self.last_event_at = NO_TIME
        self.deleted_to: int | None = None
        self.plan = Plan()
        self.plan_events: dict[tuple[int, str], bytes] = {}
        self.slots: dict[SlotKey, Slot] = {}
        self.groups: dict[GroupId, GroupState] = {}
        self.totals = RunTotals()
        self.superseded = 0
        self.conflicts = 0
        self.dirty: set[GroupId] = set()
        self.rescored: set[SlotKey] = set()
        self.rescorings: list[Rescoring] = []
        self.unsaved: set[SlotKey] = set()
        self.plan_unsaved = False
        self.pages_outdated = False
        self._prices = prices
        self._members: dict[GroupKey, set[SlotKey]] = {}
        self._outcomes: dict[GroupKey, Outcome] = {}
        self.profile: GradingProfile = grading_profile(None)

    # -- events ---------------------------------------------------------------------------------

    def apply(self, event: AnyEvent, raw: bytes, offset: int, timestamp_ms: int | None = None) -> Effect:
        """Fold one event. `raw` is the event as received, `offset` its place in the log."""
        self.state_version = max(self.state_version, offset)
        if self.deleted_to is not None and event.revision <= self.deleted_to:
            return Effect.DUPLICATE if isinstance(event, RunDeleted) else Effect.IGNORED
        self.last_event_at = max(self.last_event_at, event_time(event, timestamp_ms))
        if isinstance(event, TrialResult):
            return self.offer(event, raw)
        if isinstance(event, TrialRetracted):
            changed = self._change(slot_key(event), lambda slot: slot.retract(event.revision))
            return Effect.COUNTED if changed else Effect.DUPLICATE
        if isinstance(event, RunDeleted):
            self.delete(event.revision)
            return Effect.COUNTED
        return Effect.COUNTED if self.join_plan(event, raw) else Effect.DUPLICATE

    def offer(self, event: TrialResult, raw: bytes) -> Effect:
        """Offer a result to its slot (R17)."""
        standing = (event.revision, microseconds(event.finished_at), fingerprint(event))
        key = slot_key(event)
        known = self.slots.get(key)
        if known is not None and known.floor is not None and event.revision <= known.floor:
            return Effect.IGNORED
        if known is not None and known.winner is not None and known.winner[2] == standing[2]:
            self._change(key, lambda slot: slot.offer(standing, raw, event.agent_index), event)
            return Effect.DUPLICATE
        changed = self._change(key, lambda slot: slot.offer(standing, raw, event.agent_index), event)
        winner = self.slots[key].winner
        if winner is not None and winner[2] == standing[2]:
            return Effect.COUNTED
        return Effect.SUPERSEDED if changed else Effect.DUPLICATE

    def lose(self, key: SlotKey, standing: tuple[int, int, str]) -> None:
        """Join a content that another copy of the slot has seen lose."""
        self._change(key, lambda slot: slot.lose(standing))

    def retract(self, key: SlotKey, revision: int) -> None:
        """Join a floor that another copy of the slot has."""
        self._change(key, lambda slot: slot.retract(revision))

    def delete(self, revision: int) -> None:
        """Forget everything up to `revision`, and ignore it from now on."""
        if self.deleted_to is not None and revision <= self.deleted_to:
            return
        self.deleted_to = revision
        self.plan_unsaved = self.pages_outdated = True
        for key, slot in list(self.slots.items()):
            kept_floor = slot.floor if slot.floor is not None and slot.floor > revision else None
            slot.retract(revision)
            slot.floor = kept_floor
            self.rescored.add(key)
            if slot.winner is None and kept_floor is None:
                del self.slots[key]
        events, self.plan_events, self.plan = self.plan_events, {}, Plan()
        for raw in events.values():
            event = decode(raw)
            if isinstance(event, RunStarted | RunFinished) and event.revision > revision:
                self._join_plan(event, raw)
        self.rederive()

    def join_plan(self, event: RunStarted | RunFinished, raw: bytes) -> bool:
        """Join a plan event or the end of the run; True if it changed anything."""
        before = {name: self.plan.get(name) for name in _REDERIVING}
        if not self._join_plan(event, raw):
            return False
        self.plan_unsaved = True
        if before != {name: self.plan.get(name) for name in _REDERIVING}:
            self.rederive()
        self.dirty.update(self.groups)
        return True

    def _join_plan(self, event: RunStarted | RunFinished, raw: bytes) -> bool:
        print_ = fingerprint(event)
        changed = (
            self.plan.join(event, print_) if isinstance(event, RunStarted) else self.plan.finish(event, print_)
        )
        if changed:
            self.plan_events[(event.revision, print_)] = raw
            standing = self.plan.standings()
            self.plan_events = {at: kept for at, kept in self.plan_events.items() if at in standing}
        return changed

    # -- derivation -----------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """True if anything is known of the run besides that it was deleted."""
        return bool(self.slots or self.plan)

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

    def _change(
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
            self.unsaved.add(key)
            if slot.winner != stood:
                self.rescored.add(key)
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
        self.rescored.add(key)

    def _settle_single(self, key: SlotKey, slot: Slot, event: TrialResult | None) -> None:
        self._swap(key, slot, score_trial(event or _event(slot), self.profile, self._prices))
        self._count_single(key, slot, 1)

    def _count_single(self, key: SlotKey, slot: Slot, sign: int) -> None:
        scored = slot.scored
        if scored is not None:
            outcome = Outcome(key[1], scored.resolved, scored.failure_mode, not self.is_baseline(key[3]))
            self.totals.count_outcome(outcome, sign)

    def _settle_group(self, group: GroupKey, because: SlotKey | None) -> None:
        """Score all sub-trials of a trial group again (R9, R10)."""
        counted = self._outcomes.pop(group, None)
        if counted is not None:
            self.totals.count_outcome(counted, -1)
        keys = sorted(self._members.get(group, ()), key=str)
        if not keys:
            self._members.pop(group, None)
            return
        events = [_event(self.slots[key]) for key in keys]
        scores = score_trial_group(events, self.profile, self._prices, self.is_baseline)
        for key, scored in zip(keys, scores, strict=True):
            before = self.slots[key].scored
            if before == scored:
                continue
            if because is not None and key != because and before is not None:
                self.rescorings.append(Rescoring(key, because, before, scored))
            self._swap(key, self.slots[key], scored)
        outcome = self._group_outcome(group, events)
        self.totals.count_outcome(outcome, 1)
        self._outcomes[group] = outcome

    def _group_outcome(self, group: GroupKey, events: list[TrialResult]) -> Outcome:
        compared = [event for event in events if not self.is_baseline(event.agent)]
        decides = max(compared or events, key=lambda event: event.agent_index or 0)
        return Outcome(group[1], group_resolved(events, self.is_baseline), decides.failure_mode, bool(compared))

    def _swap(self, key: SlotKey, slot: Slot, scored: Scored | None) -> None:
        """Replace the slot's score in every group it counts in."""
        old, slot.scored = slot.scored, scored
        new = slot.scored
        if old is None and new is None:
            return
        for group_id in self.group_ids(key):
            group = self.groups.setdefault(group_id, GroupState())
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
        self.rescored.add(key)

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


def event_time(event: AnyEvent, timestamp_ms: int | None) -> int:
    """Event time in microseconds: finished, started, the revision if it is a time, the record's timestamp."""
    for name in ("finished_at", "started_at"):
        moment = getattr(event, name, None)
        if moment is not None:
            return microseconds(moment)
    if _EARLIEST_TIME <= event.revision <= _LATEST_TIME:
        return event.revision // 1000
    return NO_TIME if timestamp_ms is None else timestamp_ms * 1000


def _group_of(key: SlotKey) -> GroupKey:
    return (key[0], key[1], key[2], key[5], key[6])


def _event(slot: Slot) -> TrialResult:
    event = decode(slot.raw)
    if not isinstance(event, TrialResult):  # pragma: no cover - raw was decoded before it was stored
        raise TypeError(f"a slot holds something that is not a trial_result: {event}")
    return event
