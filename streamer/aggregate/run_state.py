"""State of one run: events join its plan and its slots, in any order, any number of times. Pure."""

from __future__ import annotations

from collections.abc import Callable

from streamer.aggregate.changes import Effect, RunChanges
from streamer.aggregate.counts import Counts, RunTotals
from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import (
    NO_TIME,
    GroupId,
    SlotKey,
    event_time,
    fingerprint,
    microseconds,
    slot_key,
)
from streamer.aggregate.plan import Denominators, Plan
from streamer.aggregate.queue import Queue
from streamer.aggregate.scores import Scores
from streamer.aggregate.slots import Page, Slot, Start
from streamer.schemas.decode import decode
from streamer.schemas.events import (
    AnyEvent,
    RunDeleted,
    RunFinished,
    RunStarted,
    TrialRetracted,
)
from streamer.schemas.limits import EARLIEST_MICROSECONDS, LATEST_MICROSECONDS
from streamer.schemas.plain import AnyStart, AnyTrial, PlainEvent, PlainTrial
from streamer.score import PriceTable, ScoringRules


class RunState:
    """One run: which result stands in each slot, what the plan says, and what follows from both.

    Groups and totals are as of the last :meth:`count`.

    Attributes:
        slots: what every result ever seen left behind.
        plan: what the plan events say together.
        queue: the order in which it starts trials.
        scores: the scores of what stands in the slots.
        counts: groups and totals.
        changes: what changed since somebody took it.
        superseded: results that lost their slot.
        conflicts: slots in which the fingerprint alone decided (R17).
        state_version: offset of the last event folded, -1 for none.
        last_event_at: greatest event time folded, microseconds since 1970; NO_TIME for none.
        deleted_to: events up to this revision are ignored, None if the run was never deleted.
        plan_events: the plan events that still decide something, as received.
    """

    def __init__(self, run_id: str, prices: PriceTable, changes: RunChanges | None = None) -> None:
        self.run_id = run_id
        self.plan = Plan()
        self.queue = Queue(run_id, self.plan)
        self.slots: dict[SlotKey, Slot] = {}
        self.changes = changes or RunChanges()
        self.counts = Counts()
        self.scores = Scores(self.slots, prices, self.counts, self.changes)
        self.superseded = 0
        self.conflicts = 0
        self.state_version = -1
        self.last_event_at = NO_TIME
        self.deleted_to: int | None = None
        self.plan_events: dict[tuple[int, str], bytes] = {}

    @property
    def rules(self) -> ScoringRules:
        return self.scores.rules

    @property
    def groups(self) -> dict[GroupId, GroupState]:
        """Every group that had trials at the last `count`."""
        return self.counts.groups

    @property
    def totals(self) -> RunTotals:
        """Totals of the run, as of the last `count`."""
        return self.counts.totals

    def every_group(self) -> set[GroupId]:
        """Every group that had trials at the last `count`, or whose trials have started."""
        return {*self.groups, *self.scores.roster.groups()}

    @property
    def exists(self) -> bool:
        """Whether anything is known of the run besides that it was deleted."""
        return bool(self.slots or self.plan)

    def count(self) -> None:
        """Bring groups and totals up to date."""
        self.scores.count()

    def denominators(self) -> Denominators:
        """Planned trials of each group, as of the last `count`."""
        return Denominators(self.plan, self.groups, self.scores.is_baseline)

    def happened_at(self, at: int) -> None:
        """An event was folded whose time this is, microseconds; outside 2000 to 2200 it has none."""
        if at > self.last_event_at and EARLIEST_MICROSECONDS <= at < LATEST_MICROSECONDS:
            self.last_event_at = at

    def apply(self, event: AnyEvent | PlainEvent, raw: bytes, offset: int, timestamp_ms: int = -1) -> Effect:
        """Fold one event.

        Args:
            raw: the event as received.
            offset: its place in the log.
            timestamp_ms: the record's, Unix milliseconds; negative: unknown.
        """
        if offset > self.state_version:
            self.state_version = offset
        if self.deleted_to is not None and event.revision <= self.deleted_to:
            return Effect.DUPLICATE if isinstance(event, RunDeleted) else Effect.IGNORED
        self.happened_at(event_time(event, timestamp_ms))
        if isinstance(event, AnyTrial):
            return self.offer(event, raw)
        if isinstance(event, AnyStart):
            at = None if event.started_at is None else microseconds(event.started_at)
            return self.start(slot_key(event), Start(event.revision, at, event.position))
        if isinstance(event, TrialRetracted):
            changed = self._change(slot_key(event), lambda slot: slot.retract(event.revision))
            return Effect.COUNTED if changed else Effect.DUPLICATE
        if isinstance(event, RunDeleted):
            self.delete(event.revision)
            return Effect.COUNTED
        return Effect.COUNTED if self.join_plan(event, raw) else Effect.DUPLICATE

    def offer(self, event: AnyTrial, raw: bytes) -> Effect:
        """Offer a result to its slot (R17)."""
        key = slot_key(event)
        slot = self.slots.get(key)
        if slot is None:
            self._fill(key, Slot(event.revision, _raw=raw), event)
            return Effect.COUNTED
        if slot.vacant:
            slot.fill(event.revision, raw, None)
            self._fill(key, slot, event)
            return Effect.COUNTED
        if slot.floor is not None and event.revision <= slot.floor:
            return Effect.IGNORED
        if slot.raw == raw:
            return Effect.DUPLICATE
        standing = (event.revision, microseconds(event.finished_at), fingerprint(event))
        repeats = slot.revision is not None and slot.fingerprint == standing[2]
        changed = self._change(key, lambda held: held.offer(standing, raw, event.agent_index), event)
        if repeats:
            return Effect.DUPLICATE
        if slot.winner == standing:
            return Effect.COUNTED
        return Effect.SUPERSEDED if changed else Effect.DUPLICATE

    def join_first(self, event: PlainTrial, page: Page, index: int) -> bool:
        """Join a result that lies on a state page; False, and nothing happened, if its slot has been seen.

        Args:
            index: its place on the page.
        """
        key = slot_key(event)
        if key in self.slots:
            return False
        slot = Slot(event.revision)
        slot.lies_on(page, index)
        self._fill(key, slot, event)
        return True

    def _fill(self, key: SlotKey, slot: Slot, event: AnyTrial) -> None:
        """The first result of a slot stands in it."""
        self.slots[key] = slot
        self.changes.slot(key)
        self.scores.filled(key, slot, event)

    def _change(self, key: SlotKey, change: Callable[[Slot], bool], event: AnyTrial | None = None) -> bool:
        """Change a slot and everything derived from it; False if there was no news."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot()
        raw, index, stood = slot.raw, slot.agent_index, slot.winner
        superseded, conflict, starts = slot.superseded, slot.in_conflict, slot.starts
        changed = change(slot)
        if changed:
            self.changes.slot(key)
            if slot.winner != stood:
                self.changes.scored_trial(key)
            if (slot.winner and slot.winner[2]) != (stood and stood[2]):
                self.scores.replaced(key, slot, raw, index, event)
            if slot.starts != starts:
                self.scores.started(key, slot)
            if (superseded, conflict) != (slot.superseded, slot.in_conflict):
                self._mark(key, slot.superseded - superseded, slot.in_conflict - conflict)
                self.changes.groups(self.scores.groups_of(key))
        elif slot.empty:
            del self.slots[key]
        return changed

    def start(self, key: SlotKey, start: Start) -> Effect:
        """Join a start of a slot's trial (inference 3)."""
        slot = self.slots.get(key) or Slot()
        if slot.floor is not None and start.revision <= slot.floor:
            return Effect.IGNORED
        if not slot.start(start):
            return Effect.DUPLICATE
        self.slots[key] = slot
        self.changes.slot(key)
        self.scores.started(key, slot)
        return Effect.STARTED

    def lose(self, key: SlotKey, standing: tuple[int, int, str]) -> None:
        """Join a content that another copy of the slot has seen lose."""
        self._change(key, lambda slot: slot.lose(standing))

    def retract(self, key: SlotKey, revision: int) -> None:
        """Join a floor that another copy of the slot has."""
        self._change(key, lambda slot: slot.retract(revision))
        self.may_stand_scored(key)

    def may_stand_scored(self, key: SlotKey) -> None:
        """Whoever saved that the slot is empty may have ended before its scored trial was withdrawn."""
        slot = self.slots.get(key)
        if slot is None or slot.revision is None:
            self.changes.scored_trial(key)

    def delete(self, revision: int) -> None:
        """Forget everything up to `revision`, and ignore it from now on."""
        if self.deleted_to is not None and revision <= self.deleted_to:
            return
        self.count()
        self.changes.groups(self.every_group())
        self.deleted_to = revision
        self.changes.every_page()
        for key, slot in list(self.slots.items()):
            kept_floor = slot.floor if slot.floor is not None and slot.floor > revision else None
            slot.retract(revision)
            slot.floor = kept_floor
            self.changes.scored_trial(key)
            if slot.empty:
                del self.slots[key]
        events, self.plan_events, self.plan = self.plan_events, {}, Plan()
        self.queue = Queue(self.run_id, self.plan)
        for raw in events.values():
            event = decode(raw)
            if isinstance(event, RunStarted | RunFinished) and event.revision > revision:
                self._join_plan(event, raw)
        self._rederive()

    def join_plan(self, event: RunStarted | RunFinished, raw: bytes) -> bool:
        """Join a plan event or the end of the run; True if it changed anything."""
        self.count()
        if not self._join_plan(event, raw):
            return False
        self.changes.plan()
        if self.plan.scoring_rules(self.rules.prices) != self.rules:
            self._rederive()
            self.count()
        self.changes.groups(self.every_group())
        return True

    def _join_plan(self, event: RunStarted | RunFinished, raw: bytes) -> bool:
        print_ = fingerprint(event)
        changed = (
            self.plan.join(event, print_)
            if isinstance(event, RunStarted)
            else self.plan.finish(event, print_)
        )
        if changed:
            self.plan_events[(event.revision, print_)] = raw
            standing = self.plan.standings()
            self.plan_events = {at: kept for at, kept in self.plan_events.items() if at in standing}
            self.queue = Queue(self.run_id, self.plan)
        return changed

    def _rederive(self) -> None:
        """Score everything again and rebuild groups and totals from the slots."""
        self.count()
        self.changes.groups(self.every_group())
        self.counts.clear()
        self.superseded = self.conflicts = 0
        self.scores.score_all(self.plan.scoring_rules(self.rules.prices))
        for key, slot in self.slots.items():
            self._mark(key, slot.superseded, slot.in_conflict)

    def _mark(self, key: SlotKey, superseded: int, conflicts: int) -> None:
        """Count losers and conflicts where the slot counts."""
        if not superseded and not conflicts:
            return
        self.superseded += superseded
        self.conflicts += conflicts
        for group_id in self.scores.groups_of(key):
            self.counts.mark(group_id, superseded, conflicts)
