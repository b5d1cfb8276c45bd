"""State pages: how the slots of a run lie in the table `trials`.

A page is one JSON line, its header, followed by events as they were received, one after the other and
compressed (lz4); once a page is full, the worker keeps their events there alone. Page 0 holds what
concerns the run itself: plan events and the deletion marker. The other pages hold slots, at most
:data:`MAX_SLOTS` and about :data:`MAX_BYTES` each; a larger slot has a page of its own. A writer
rewrites only its own pages, so a writer that lost the run cannot overwrite another's; folding joins
all writers' copies of a slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from cramjam import DecompressionError

from streamer.aggregate.changes import PageChanges, PageWrite
from streamer.aggregate.keys import SlotKey, slot_key
from streamer.aggregate.page_format import (
    RUN_PAGE,
    PageError,
    cut,
    events_on,
    key_of,
    length_of,
    opened,
    page_key,
    written,
)
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, Start
from streamer.schemas.decode import DAMAGED, Reason, decode
from streamer.schemas.events import RunDeleted, RunFinished, RunStarted
from streamer.schemas.plain import AnyTrial, plain_trial

MAX_SLOTS = 64
MAX_BYTES = 16 * 1024
MAX_BYTES_AGAIN = 2 * 1024
"""A page that was written takes more slots up to here only: in a trickle each of them writes it again."""

_SLOT_OVERHEAD_BYTES = 16
_KNOWN_BYTES = 64
"""For each loser, and for each start."""


class StatePage:
    """One page of slots as it was last written or read; slots that lie on it have their events here.

    Attributes:
        number: of this writer's page; None for one that another writer wrote.
        keys: the slots that belong on it, in the order in which it was last written, then the new ones.
        value: its bytes.
        size: about how many bytes the slots take.
    """

    __slots__ = ("keys", "number", "size", "value")

    def __init__(self, number: int | None, value: bytes = b"") -> None:
        self.number = number
        self.keys: list[SlotKey] = []
        self.value = value
        self.size = 0

    def event(self, index: int) -> bytes:
        """The event of the slot at that place."""
        return events_on(self.value)[index]

    def events(self) -> list[bytes]:
        """The events of the slots on the page, in order."""
        return events_on(self.value) if self.value else []


class PageBook:
    """One writer's pages of one run, and which pages of other writers exist beside them."""

    def __init__(self, run: RunState, writer: str) -> None:
        self.run = run
        self.writer = writer
        self._pages: dict[int, StatePage] = {}
        self._foreign: dict[str, int] = {}
        self._open: StatePage | None = None
        self._next = RUN_PAGE + 1
        self._has_run_page = False

    def keys(self) -> list[str]:
        """Every page that holds something of the run, other writers' included."""
        own = [RUN_PAGE, *self._pages] if self._has_run_page else self._pages
        return [*self._foreign, *map(self._key, own)]

    def note_foreign(self, key: str, slots: int) -> None:
        """A page of another writer was folded into the run; it held `slots` slots."""
        self._foreign[key] = slots

    def writes(self) -> list[PageWrite]:
        """Take what is out of date. Values come first, tombstones after them.

        The values must be acknowledged before the tombstones are sent: a tombstone removes a page
        whose slots the values hold.
        """
        run, tombstones = self.run, []
        changed = run.changes.take_pages()
        if changed.everything or self._scattered():
            tombstones = [*self._foreign, *map(self._key, self._pages)]
            self._foreign, self._pages, self._open = {}, {}, None
            for slot in run.slots.values():
                slot.leave_page()
            changed = PageChanges(dict.fromkeys(run.slots), plan=True, everything=True)
        open_before = self._open
        dirty, rewritten = self._placed(key for key in changed.slots if key in run.slots)
        dirty |= self._repaged(rewritten)
        writes = [PageWrite(self._key(number), self._slot_page(number)) for number in sorted(dirty)]
        if open_before is not None and open_before is not self._open and open_before.number not in dirty:
            self._let_go(open_before)
        if changed.plan:
            self._has_run_page = True
            writes.insert(0, PageWrite(self._key(RUN_PAGE), self._run_page()))
        return writes + [PageWrite(key, None) for key in tombstones]

    def _key(self, number: int) -> str:
        return page_key(self.run.run_id, self.writer, number)

    def _scattered(self) -> bool:
        """True if other writers left many more pages than their slots need: time to merge them."""
        needed = len(self.run.slots) // MAX_SLOTS + 1
        return len(self._foreign) > 16 + 4 * needed

    def _placed(self, keys: Iterable[SlotKey]) -> tuple[set[int], set[int]]:
        """Let each slot belong on a page: the pages to write, and those of them with slots from before."""
        dirty, rewritten = set(), set()
        slots = self.run.slots
        for key in keys:
            slot = slots[key]
            page = slot.page
            if isinstance(page, StatePage) and page.number is not None:
                rewritten.add(page.number)
            else:
                if page is not None:
                    slot.leave_page()
                dirty.add(self._place(key, slot))
        return dirty | rewritten, rewritten

    def _place(self, key: SlotKey, slot: Slot) -> int:
        """Number of the page that a slot belongs on from now on, which is on none."""
        size, held = slot_bytes(slot), self._open
        room = MAX_BYTES if held is None or not held.value else MAX_BYTES_AGAIN
        if held is None or len(held.keys) >= MAX_SLOTS or held.size + size > room:
            held = self._open = self._pages[self._next] = StatePage(self._next)
            self._next += 1
        held.keys.append(key)
        held.size += size
        slot.page = held
        return held.number or 0

    def _repaged(self, rewritten: set[int]) -> set[int]:
        """Take slots off pages that grew past their size; the pages that received them."""
        moved: set[int] = set()
        for number in rewritten:
            page = self._pages[number]
            self._take_off(page)
            sizes = {key: slot_bytes(self.run.slots[key]) for key in page.keys}
            page.size = sum(sizes.values())
            while page.size > MAX_BYTES and len(page.keys) > 1:
                key = max(page.keys, key=lambda key: sizes[key])
                page.keys.remove(key)
                page.size -= sizes[key]
                self.run.slots[key].page = None
                self._open = None if sizes[key] > MAX_BYTES else self._open
                moved.add(self._place(key, self.run.slots[key]))
        for number in moved - rewritten:
            self._take_off(self._pages[number])
        return moved

    def _take_off(self, page: StatePage) -> None:
        """Give the slots of a page that is about to be written their events back, all at once."""
        if any(self.run.slots[key].on_page for key in page.keys):
            for key, raw in zip(page.keys, page.events(), strict=False):
                slot = self.run.slots[key]
                if slot.on_page:
                    slot.raw = raw

    def _slot_page(self, number: int) -> bytes:
        page = self._pages[number]
        slots = [self.run.slots[key] for key in page.keys]
        raws = [slot.raw for slot in slots]
        entries = [_entry(*of_slot) for of_slot in zip(page.keys, slots, raws, strict=True)]
        page.value = self._encode({"slots": entries}, raws)
        if page is not self._open:
            self._let_go(page)
        return page.value

    def _let_go(self, page: StatePage) -> None:
        """Keep no event beside a page that has it. The open page waits: it is about to be written again."""
        for index, key in enumerate(page.keys):
            self.run.slots[key].lies_on(page, index)

    def _run_page(self) -> bytes:
        raws = list(self.run.plan_events.values())
        return self._encode({"plan": [len(raw) for raw in raws], "deleted_to": self.run.deleted_to}, raws)

    def _encode(self, header: dict[str, Any], raws: list[bytes]) -> bytes:
        return written(header | {"as_of": self.run.state_version, "at": self.run.last_event_at}, raws)


def slot_bytes(slot: Slot) -> int:
    """About how many bytes a slot takes on a page."""
    size = len(slot.raw) + _SLOT_OVERHEAD_BYTES
    return size + _KNOWN_BYTES * (len(slot.losers) + len(slot.starts)) if slot.has_history else size


def join_page(run: RunState, key: str, value: bytes) -> int:
    """Join a page of any writer into the run; the number of slots it held.

    Idempotent and commutative. An event that an earlier version accepted, and this one does not, is left
    out. Raises :class:`PageError` for a page this version cannot read.
    """
    try:
        header, body = opened(value)
    except (orjson.JSONDecodeError, KeyError, TypeError, DecompressionError) as error:
        raise PageError(
            f"state page {key} is not readable: {error}. Rebuild the state from the event topic."
        ) from error
    except PageError as error:
        raise type(error)(f"state page {key} {error}") from None
    run.state_version = max(run.state_version, header["as_of"])
    run.happened_at(header["at"])
    if header.get("deleted_to") is not None:
        run.delete(header["deleted_to"])
    for raw in cut(body, header.get("plan", ())):
        _join_event(run, key, raw)
    page, entries = StatePage(None, value), header.get("slots", ())
    for index, (entry, raw) in enumerate(zip(entries, cut(body, map(length_of, entries)), strict=True)):
        if raw:
            event = plain_trial(raw) if run.deleted_to is None else None
            if event is None or not run.join_first(event, page, index):
                slot = _join_event(run, key, raw)
                if slot is not None:
                    slot.lies_on(page, index)
        if not isinstance(entry, int):
            _join_knowledge(run, entry)
    return len(entries)


def _entry(key: SlotKey, slot: Slot, raw: bytes) -> int | dict[str, Any]:
    """Header entry of a slot: the length of its event, or that and what else the slot knows."""
    if not slot.has_history:
        return len(raw)
    entry = {"n": len(raw), "k": tuple(key), "l": slot.losers, "f": slot.floor}
    return entry | {"s": [tuple(start) for start in slot.starts]} if slot.starts else entry


def _join_event(run: RunState, key: str, raw: bytes) -> Slot | None:
    """Join an event; the slot in which it stands now, None if it stands in none."""
    event = plain_trial(raw) or decode(raw)
    if isinstance(event, Reason):
        if event.code in DAMAGED:
            raise PageError(f"state page {key} holds an event that does not decode: {event.message}")
        return None  # an earlier version accepted it; the log's copy is a rejection since
    if isinstance(event, RunDeleted):
        raise PageError(f"state page {key} holds a run_deleted event; deletions belong in the page header.")
    if run.deleted_to is not None and event.revision <= run.deleted_to:
        if isinstance(event, AnyTrial):
            run.may_stand_scored(slot_key(event))
        return None
    if isinstance(event, RunStarted | RunFinished):
        run.join_plan(event, raw)
    elif isinstance(event, AnyTrial):
        run.offer(event, raw)
        slot = run.slots.get(slot_key(event))
        return slot if slot is not None and slot.raw is raw else None
    return None


def _join_knowledge(run: RunState, entry: dict[str, Any]) -> None:
    key = key_of(entry)
    for start in entry.get("s", ()):
        if run.deleted_to is None or start[0] > run.deleted_to:
            run.start(key, Start(*start))
    if entry["f"] is not None and (run.deleted_to is None or entry["f"] > run.deleted_to):
        run.retract(key, entry["f"])
    for fingerprint, (revision, finished_at) in entry["l"].items():
        if run.deleted_to is None or revision > run.deleted_to:
            run.lose(key, (revision, finished_at, fingerprint))
