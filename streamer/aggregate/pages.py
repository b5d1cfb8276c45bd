"""State pages: how the slots of a run lie in the table `trials`.

A page is one JSON line, its header, followed by events as they were received. Page 0 holds what
concerns the run itself: plan events and the deletion marker. The other pages hold slots, at most
:data:`MAX_SLOTS` and about :data:`MAX_BYTES` each; a larger slot has a page of its own. A writer
rewrites only its own pages, so a writer that lost the run cannot overwrite another's; folding joins
all writers' copies of a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.decode import Reason, decode
from schemas.events import RunDeleted, RunFinished, RunStarted, TrialResult
from schemas.identity import decode_id, encode_id
from streamer.aggregate.changes import PageWrite
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import Slot, SlotKey

MAX_SLOTS = 64
MAX_BYTES = 16 * 1024
RUN_PAGE = 0
PAGE_VERSION = 1
_SLOT_OVERHEAD_BYTES = 16
_LOSER_BYTES = 64


class PageError(ValueError):
    """A page that this version cannot read. The message names the page and what to do."""


@dataclass(slots=True)
class _Page:
    keys: dict[SlotKey, None] = field(default_factory=dict)
    size: int = 0


def page_key(run_id: str, writer: str, number: int) -> str:
    """Key of a page in the table: `RUN/WRITER/N`, the run percent-encoded."""
    return f"{encode_id(run_id)}/{writer}/{number}"


def run_of_page(key: str) -> str:
    """The run that a page belongs to."""
    return decode_id(key.split("/", 1)[0])


class PageBook:
    """One writer's pages of one run, and which pages of other writers exist beside them."""

    def __init__(self, run: RunState, writer: str) -> None:
        self.run = run
        self.writer = writer
        self._pages: dict[int, _Page] = {}
        self._foreign: dict[str, int] = {}
        self._open = RUN_PAGE
        self._next = RUN_PAGE + 1

    def note_foreign(self, key: str, slots: int) -> None:
        """A page of another writer was folded into the run; it held `slots` slots."""
        self._foreign[key] = slots

    def writes(self) -> list[PageWrite]:
        """Drain what is out of date. Values come first, tombstones after them.

        The values must be acknowledged before the tombstones are sent: a tombstone removes a page
        whose slots the values hold.
        """
        run, tombstones = self.run, []
        if run.pages_outdated or self._scattered():
            tombstones = [
                *self._foreign,
                *(self._key(number) for number in self._pages if number != RUN_PAGE),
            ]
            self._foreign, self._pages = {}, {}
            for slot in run.slots.values():
                slot.page = None
            run.unsaved = dict.fromkeys(run.slots)
            run.plan_unsaved = True
        dirty = {self._place(key, run.slots[key]) for key in run.unsaved if key in run.slots}
        dirty |= self._repaged(dirty)
        writes = [PageWrite(self._key(number), self._slot_page(number)) for number in sorted(dirty)]
        if run.plan_unsaved:
            writes.insert(0, PageWrite(self._key(RUN_PAGE), self._run_page()))
        run.unsaved, run.plan_unsaved, run.pages_outdated = {}, False, False
        return writes + [PageWrite(key, None) for key in tombstones]

    def _key(self, number: int) -> str:
        return page_key(self.run.run_id, self.writer, number)

    def _scattered(self) -> bool:
        """True if other writers left many more pages than their slots need: time to merge them."""
        needed = len(self.run.slots) // MAX_SLOTS + 1
        return len(self._foreign) > 16 + 4 * needed

    def _place(self, key: SlotKey, slot: Slot) -> int:
        """Number of the page that the slot belongs on from now on."""
        size = slot_bytes(slot)
        page = self._pages.get(slot.page) if slot.page is not None else None
        if page is not None and key in page.keys:
            return slot.page or 0
        held = self._pages.get(self._open)
        if held is None or len(held.keys) >= MAX_SLOTS or held.size + size > MAX_BYTES:
            self._open = self._next
            self._next += 1
            held = self._pages[self._open] = _Page()
        held.keys[key] = None
        held.size += size
        slot.page = self._open
        return self._open

    def _repaged(self, dirty: set[int]) -> set[int]:
        """Take slots off pages that grew past their size; the pages that received them."""
        moved: set[int] = set()
        for number in dirty:
            page = self._pages[number]
            page.size = sum(slot_bytes(self.run.slots[key]) for key in page.keys)
            while page.size > MAX_BYTES and len(page.keys) > 1:
                key = max(page.keys, key=lambda key: slot_bytes(self.run.slots[key]))
                del page.keys[key]
                slot = self.run.slots[key]
                page.size -= slot_bytes(slot)
                slot.page = None
                self._open = RUN_PAGE if slot_bytes(slot) > MAX_BYTES else self._open
                moved.add(self._place(key, slot))
        return moved

    def _slot_page(self, number: int) -> bytes:
        entries: list[Any] = []
        raws: list[bytes] = []
        for key in self._pages[number].keys:
            slot = self.run.slots[key]
            entries.append(_entry(key, slot))
            raws.append(slot.raw)
        return self._encode({"slots": entries}, raws)

    def _run_page(self) -> bytes:
        raws = list(self.run.plan_events.values())
        return self._encode({"plan": [len(raw) for raw in raws], "deleted_to": self.run.deleted_to}, raws)

    def _encode(self, header: dict[str, Any], raws: list[bytes]) -> bytes:
        header |= {"v": PAGE_VERSION, "as_of": self.run.state_version, "at": self.run.last_event_at}
        return orjson.dumps(header) + b"\n" + b"".join(raws)


def slot_bytes(slot: Slot) -> int:
    """About how many bytes a slot takes on a page."""
    return len(slot.raw) + _SLOT_OVERHEAD_BYTES + _LOSER_BYTES * len(slot.losers)


def join_page(run: RunState, key: str, value: bytes) -> int:
    """Join a page of any writer into the run; the number of slots it held.

    Idempotent and commutative. Raises :class:`PageError` for a page this version cannot read.
    """
    head, _, body = value.partition(b"\n")
    try:
        header = orjson.loads(head)
        version = header["v"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise PageError(
            f"state page {key} is not readable: {error}. Rebuild the state from the event topic."
        ) from error
    if version != PAGE_VERSION:
        raise PageError(
            f"state page {key} has version {version}, this worker reads {PAGE_VERSION}. Upgrade the worker."
        )
    run.state_version = max(run.state_version, header["as_of"])
    run.last_event_at = max(run.last_event_at, header["at"])
    if header.get("deleted_to") is not None:
        run.delete(header["deleted_to"])
    offset = 0
    for length in header.get("plan", ()):
        _join_event(run, key, body[offset : offset + length])
        offset += length
    for entry in header.get("slots", ()):
        length = entry if isinstance(entry, int) else entry["n"]
        if length:
            _join_event(run, key, body[offset : offset + length])
            offset += length
        if not isinstance(entry, int):
            _join_knowledge(run, entry)
    return len(header.get("slots", ()))


def _entry(key: SlotKey, slot: Slot) -> int | dict[str, Any]:
    """Header entry of a slot: the length of its event, or that and what else the slot knows."""
    if not slot.losers and slot.floor is None:
        return len(slot.raw)
    return {"n": len(slot.raw), "k": key, "l": slot.losers, "f": slot.floor}


def _join_event(run: RunState, key: str, raw: bytes) -> None:
    event = decode(raw)
    if isinstance(event, Reason):
        raise PageError(f"state page {key} holds an event that does not decode: {event.message}")
    if isinstance(event, RunDeleted):
        raise PageError(f"state page {key} holds a run_deleted event; deletions belong in the page header.")
    if run.deleted_to is not None and event.revision <= run.deleted_to:
        return
    if isinstance(event, TrialResult):
        run.offer(event, raw)
    elif isinstance(event, RunStarted | RunFinished):
        run.join_plan(event, raw)


def _join_knowledge(run: RunState, entry: dict[str, Any]) -> None:
    shard, task_id, attempt, agent, model, tier, subtest = entry["k"]
    key = (shard, task_id, attempt, agent, model, tier, subtest)
    if entry["f"] is not None and (run.deleted_to is None or entry["f"] > run.deleted_to):
        run.retract(key, entry["f"])
    for fingerprint, (revision, finished_at) in entry["l"].items():
        if run.deleted_to is None or revision > run.deleted_to:
            run.lose(key, (revision, finished_at, fingerprint))
