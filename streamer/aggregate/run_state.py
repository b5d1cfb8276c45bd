"""State of one run: events join its plan and its slots, in any order, any number of times. Pure."""

from __future__ import annotations

from datetime import datetime
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
from schemas.plain import AnyTrial, PlainTrial
from streamer.aggregate.plan import Plan
from streamer.aggregate.scored_slots import ScoredSlots
from streamer.aggregate.slots import (
    NO_TIME,
    Page,
    Slot,
    SlotKey,
    fingerprint,
    microseconds,
    slot_key,
)
from streamer.score import PriceTable

_EARLIEST_TIME, _LATEST_TIME = 946_684_800 * 10**9, 7_258_118_400 * 10**9
"""Revisions between 2000 and 2200 in ns are taken for times of writing."""


class Effect(StrEnum):
    """What an event did to the run."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    IGNORED = "ignored"


class RunState(ScoredSlots):
    """One run: apply events, then ask `streamer.aggregate.cut` what changed.

    Attributes:
        state_version: offset of the last event folded, -1 for none.
        deleted_to: events up to this revision are ignored, None if the run was never deleted.
        plan_events: the plan events that still decide something, as received.
        plan_unsaved: True if the run's own page is out of date.
        pages_outdated: True if slots vanished (the run was deleted), so that every page is out of date.
    """

    def __init__(self, run_id: str, prices: PriceTable) -> None:
        super().__init__(run_id, prices)
        self.state_version = -1
        self._last_event_at = NO_TIME
        self._latest: datetime | None = None  # of usual results, which is made microseconds when asked for
        self.deleted_to: int | None = None
        self.plan_events: dict[tuple[int, str], bytes] = {}
        self.plan_unsaved = False
        self.pages_outdated = False

    @property
    def last_event_at(self) -> int:
        """Greatest event time folded, microseconds."""
        if self._latest is not None:
            self.happened_at(microseconds(self._latest))
        return self._last_event_at

    def happened_at(self, at: int) -> None:
        """An event was folded whose time this is, microseconds."""
        self._last_event_at = max(self._last_event_at, at)

    def apply(self, event: AnyEvent | PlainTrial, raw: bytes, offset: int, timestamp_ms: int = -1) -> Effect:
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
        if isinstance(event, PlainTrial):
            moment = event.finished_at or event.started_at
            if moment is None:
                self.happened_at(event_time(event, timestamp_ms))
            elif self._latest is None or moment > self._latest:
                self._latest = moment
            return self.offer(event, raw, live=True)
        self.happened_at(event_time(event, timestamp_ms))
        if isinstance(event, TrialResult):
            return self.offer(event, raw, live=True)
        if isinstance(event, TrialRetracted):
            changed = self.change_slot(slot_key(event), lambda slot: slot.retract(event.revision))
            return Effect.COUNTED if changed else Effect.DUPLICATE
        if isinstance(event, RunDeleted):
            self.delete(event.revision)
            return Effect.COUNTED
        return Effect.COUNTED if self.join_plan(event, raw) else Effect.DUPLICATE

    def offer(self, event: AnyTrial, raw: bytes, *, live: bool = False) -> Effect:
        """Offer a result to its slot (R17); `live`: its scored trial will be cut soon."""
        key = slot_key(event)
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot(event.revision, None, 0, raw)
            self.fill_slot(key, slot, event, live=live)
            return Effect.COUNTED
        if slot.floor is not None and event.revision <= slot.floor:
            return Effect.IGNORED
        if slot.raw == raw:
            return Effect.DUPLICATE
        standing = (event.revision, microseconds(event.finished_at), fingerprint(event))
        repeats = slot.revision is not None and slot.fingerprint == standing[2]
        changed = self.change_slot(key, lambda held: held.offer(standing, raw, event.agent_index), event)
        if repeats:
            return Effect.DUPLICATE
        if slot.winner == standing:
            return Effect.COUNTED
        return Effect.SUPERSEDED if changed else Effect.DUPLICATE

    def join_first(self, event: PlainTrial, page: Page, index: int) -> bool:
        """Join a result that lies on a state page; False, and nothing happened, if its slot has been seen.

        Args:
            event: its times are not looked at.
            index: its place on the page.
        """
        key = slot_key(event)
        if key in self.slots:
            return False
        slot = self.slots[key] = Slot(event.revision, page, index, None)
        self.fill_slot(key, slot, event, live=False)
        return True

    def lose(self, key: SlotKey, standing: tuple[int, int, str]) -> None:
        """Join a content that another copy of the slot has seen lose."""
        self.change_slot(key, lambda slot: slot.lose(standing))

    def retract(self, key: SlotKey, revision: int) -> None:
        """Join a floor that another copy of the slot has."""
        self.change_slot(key, lambda slot: slot.retract(revision))
        self.may_stand_scored(key)

    def may_stand_scored(self, key: SlotKey) -> None:
        """Whoever saved that the slot is empty may have ended before its scored trial was withdrawn."""
        slot = self.slots.get(key)
        if slot is None or slot.revision is None:
            self._note(key)

    def delete(self, revision: int) -> None:
        """Forget everything up to `revision`, and ignore it from now on."""
        if self.deleted_to is not None and revision <= self.deleted_to:
            return
        self.dirty.update(self.groups)
        self.deleted_to = revision
        self.plan_unsaved = self.pages_outdated = True
        for key, slot in list(self.slots.items()):
            kept_floor = slot.floor if slot.floor is not None and slot.floor > revision else None
            slot.retract(revision)
            slot.floor = kept_floor
            self._note(key)
            if slot.revision is None and kept_floor is None:
                del self.slots[key]
        events, self.plan_events, self.plan = self.plan_events, {}, Plan()
        for raw in events.values():
            event = decode(raw)
            if isinstance(event, RunStarted | RunFinished) and event.revision > revision:
                self._join_plan(event, raw)
        self.rederive()

    def join_plan(self, event: RunStarted | RunFinished, raw: bytes) -> bool:
        """Join a plan event or the end of the run; True if it changed anything."""
        self.settle()
        if not self._join_plan(event, raw):
            return False
        self.plan_unsaved = True
        if self.plan.scoring_rules(self.rules.prices) != self.rules:
            self.rederive()
        self.dirty.update(self.groups)
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
        return changed

    @property
    def exists(self) -> bool:
        """True if anything is known of the run besides that it was deleted."""
        return bool(self.slots or self.plan)


def event_time(event: AnyEvent | PlainTrial, timestamp_ms: int) -> int:
    """Event time in microseconds: finished, started, the revision if it is a time, the record's timestamp."""
    if isinstance(event, PlainTrial):
        moment = event.finished_at or event.started_at
    else:
        known = event.__dict__
        moment = known.get("finished_at") or known.get("started_at")
    if moment is not None:
        return microseconds(moment)
    if _EARLIEST_TIME <= event.revision <= _LATEST_TIME:
        return event.revision // 1000
    return NO_TIME if timestamp_ms < 0 else timestamp_ms * 1000
