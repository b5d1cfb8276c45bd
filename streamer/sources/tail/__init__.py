"""Follow a run directory, and publish its trials as soon as their files exist.

- The ledger here knows which events were published and which are due. Its file survives a restart.
- `scan` reads the directory as `convert` does, and handles unfinished files, problems and deletions.
- `follow` reads changed parts at once, and the whole directory now and then.
- `session` is one `tail` from start to end, with a check that a worker takes the events.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
from filelock import FileLock, Timeout

from streamer.client.capture import AppendOnlyFile, spill_dir
from streamer.folding.slots import Slot, SlotKey, SlotRank, fingerprint, slot_key
from streamer.schemas.base import canonical_json, microseconds, sha256_hex
from streamer.schemas.events import EVENT, TrialResult, TrialStarted
from streamer.settings import Settings

# -----------------------------------------------------------------------------
# The published and the due events of a directory, so that the log agrees with the directory.
#
# The log only grows, and of two results in a slot the greater one wins (R17). So if the directory differs
# from the winner of the published results, its result is published again with a higher revision. A slot that
# the directory no longer fills is retracted. A start is published once, if its slot has no result. Equal
# content is published once, and again after each start of `tail`, because the last events before its end may
# not have arrived.


EventFields = dict[str, Any]
Line = dict[str, Any]

ResultKey = tuple[str, SlotKey]

_SLOT_FIELDS = ("shard", "task_id", "attempt", "agent", "model", "tier", "subtest")


@dataclass(frozen=True, slots=True)
class DirectoryResult:
    key: ResultKey
    rank: SlotRank
    event: EventFields
    path: str


def directory_result(event: EventFields, path: str) -> DirectoryResult:
    parsed = EVENT.validate_json(canonical_json(event))
    assert isinstance(parsed, TrialResult | TrialStarted)
    finished_at = parsed.finished_at if isinstance(parsed, TrialResult) else None
    rank = (parsed.revision, microseconds(finished_at), fingerprint(parsed))
    return DirectoryResult((parsed.run_id, slot_key(parsed)), rank, event, path)


@dataclass(slots=True)
class _PublishedSlot:
    """The published events of one slot; `sent` counts since the process began."""

    slot: Slot = field(default_factory=Slot)
    path: str = ""
    sent: bool = False
    started: int | None = None

    @property
    def is_filled(self) -> bool:
        floor = self.slot.floor
        is_started = self.started is not None and (floor is None or self.started > floor)
        return self.slot.winner is not None or is_started


class Ledger:
    """The published events, folded like the log; its methods return the events to publish, and
    record them.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._slots: dict[ResultKey, _PublishedSlot] = {}
        self._plans: dict[tuple[str, ...], tuple[int, str]] = {}
        self._plans_sent: set[tuple[str, str]] = set()

    def offer(self, new: DirectoryResult) -> Iterator[EventFields]:
        """A result, published unchanged if its content is new."""
        stored = self._slots.setdefault(new.key, _PublishedSlot())
        winner, content = stored.slot.winner, new.rank[2]
        if winner is not None and winner[2] == content:
            if not stored.sent:
                stored.sent = True
                yield new.event | {"revision": winner[0]}
            return
        is_known_loser = content in stored.slot.losers
        stored.slot.offer(new.rank, b"", None)
        if stored.slot.winner == new.rank:
            stored.sent, stored.path = True, new.path
        elif is_known_loser or content not in stored.slot.losers:
            return
        self._note(new, new.rank)
        yield new.event

    def resolve(self, group: Iterable[DirectoryResult]) -> Iterator[EventFields]:
        """All results in the directory for one slot, published so that the right one wins."""
        results = list(group)
        for new in results:
            yield from self.offer(new)
        best = max(results, key=lambda new: new.rank)
        stored = self._slots[best.key]
        if stored.slot.winner is None or stored.slot.winner[2] != best.rank[2]:
            beaten = [stored.slot.winner[0]] if stored.slot.winner else []
            beaten += [stored.slot.floor] if stored.slot.floor is not None else []
            rank = (max(beaten) + 1, *best.rank[1:])
            stored.slot.offer(rank, b"", None)
            stored.sent = True
            self._note(best, rank)
            yield best.event | {"revision": rank[0]}
        elif stored.path != best.path:
            self._note(best, stored.slot.winner)
        stored.path = best.path

    def start(self, new: DirectoryResult) -> Iterator[EventFields]:
        """A started trial, published if its slot is empty, with a revision above withdrawn ones."""
        stored = self._slots.setdefault(new.key, _PublishedSlot())
        if not stored.is_filled:
            floor = stored.slot.floor
            stored.started = new.rank[0] if floor is None else max(new.rank[0], floor + 1)
            stored.path = new.path
            self.lines.append({"key": _flat(new.key), "started": stored.started, "path": new.path})
            yield new.event | {"revision": stored.started}

    def wins(self, new: DirectoryResult) -> bool:
        stored = self._slots.get(new.key)
        return stored is not None and stored.slot.winner is not None and stored.slot.winner[2] == new.rank[2]

    def filled(self) -> Iterator[tuple[ResultKey, str]]:
        for key, stored in self._slots.items():
            if stored.slot.winner is not None:
                yield key, stored.path

    def begun(self) -> Iterator[tuple[ResultKey, str]]:
        for key, stored in self._slots.items():
            if stored.is_filled and stored.slot.winner is None:
                yield key, stored.path

    def file_of(self, key: ResultKey) -> str | None:
        stored = self._slots.get(key)
        return stored.path if stored is not None and stored.slot.winner is not None else None

    def retract(self, key: ResultKey) -> EventFields:
        stored = self._slots[key]
        winner = stored.slot.winner
        stored.slot.retract(max(r for r in (winner and winner[0], stored.started) if r is not None))
        stored.sent = True
        self.lines.append({"key": _flat(key), "floor": stored.slot.floor})
        return _retraction(key, stored.slot)

    def retracted(self) -> Iterator[EventFields]:
        """The results that earlier processes withdrew, again."""
        for key, stored in self._slots.items():
            if stored.slot.winner is None and stored.slot.floor is not None and not stored.sent:
                stored.sent = True
                yield _retraction(key, stored.slot)

    def plan(self, event: EventFields) -> Iterator[EventFields]:
        key = (event["run_id"], event["type"], *([event["part"]] if "part" in event else []))
        print_ = fingerprint(EVENT.validate_json(canonical_json(event)))
        revision = event.get("revision", 0)
        stored = self._plans.get(key)
        if stored is not None and stored[1] == print_:
            revision = stored[0]
            if key in self._plans_sent:
                return
        elif stored is not None:
            revision = max(revision, stored[0] + 1)
        self._plans_sent.add(key)
        if stored != (revision, print_):
            self._plans[key] = (revision, print_)
            self.lines.append({"plan": list(key), "standing": [revision, print_]})
        yield event | {"revision": revision}

    def restore(self, line: Mapping[str, Any]) -> None:
        """Apply a line of the journal. An invalid one raises KeyError, TypeError or ValueError."""
        if "plan" in line:
            revision, print_ = line["standing"]
            self._plans[tuple(line["plan"])] = (int(revision), str(print_))
            return
        run_id, *slot = line["key"]
        shard, task_id, attempt, agent, model, tier, subtest = slot
        key = (run_id, SlotKey(shard, task_id, int(attempt), agent, model, tier, subtest))
        stored = self._slots.setdefault(key, _PublishedSlot())
        if "floor" in line:
            stored.slot.retract(int(line["floor"]))
        elif "started" in line:
            stored.started, stored.path = int(line["started"]), str(line["path"])
        else:
            revision, finished_at, print_ = line["standing"]
            stored.slot.offer((int(revision), int(finished_at), str(print_)), b"", None)
            stored.path = str(line["path"])

    def dump(self) -> Iterator[Line]:
        for plan, rank in self._plans.items():
            yield {"plan": list(plan), "standing": list(rank)}
        for key, stored in self._slots.items():
            if stored.slot.floor is not None:
                yield {"key": _flat(key), "floor": stored.slot.floor}
            if stored.started is not None:
                yield {"key": _flat(key), "started": stored.started, "path": stored.path}
            for print_, at in stored.slot.losers.items():
                yield {"key": _flat(key), "standing": [*at[:2], print_], "path": stored.path}
            if stored.slot.winner is not None:
                yield {"key": _flat(key), "standing": list(stored.slot.winner), "path": stored.path}

    def _note(self, new: DirectoryResult, rank: SlotRank) -> None:
        self.lines.append({"key": _flat(new.key), "standing": list(rank), "path": new.path})


def _flat(key: ResultKey) -> list[Any]:
    return [key[0], *key[1]]


def _retraction(key: ResultKey, slot: Slot) -> EventFields:
    run_id, fields = key
    named = {name: value for name, value in zip(_SLOT_FIELDS, fields, strict=True) if value is not None}
    return {
        "type": "trial_retracted",
        "run_id": run_id,
        **named,
        "revision": slot.floor,
        "reason": "the run directory no longer holds it",
    }


# -----------------------------------------------------------------------------
# The ledger on disk: one NDJSON file per followed directory, written before its events are published.
#
# So after any end the next start knows all events that may have been published, and can withdraw or replace
# them. Without the file nothing wrong is published, but results in the log that the directory no longer has
# stay.


NAME_CHARACTERS = 24


class AlreadyFollowed(Exception):
    def __init__(self, root: Path) -> None:
        super().__init__(
            f"another process follows {root} for the same broker and namespace: `streamer tail`, `live`, or "
            "the plug-in for Harbor. Stop it first"
        )


def ledger_path(settings: Settings, root: Path, run_id: str | None) -> Path:
    name = sha256_hex(canonical_json([os.path.abspath(root), run_id]))[:NAME_CHARACTERS]
    return _ledgers(settings) / f"{name}.ndjson"


@dataclass(frozen=True, slots=True)
class Followed:
    """A followed directory, and the run that its runs were pooled into (None: they were not pooled)."""

    root: Path
    run_id: str | None


def followed(settings: Settings) -> list[Followed]:
    """The directories that this user followed. Older ledgers lack theirs until the next `tail`."""
    directories = []
    for file in sorted(_ledgers(settings).glob("*.ndjson")):
        try:
            with file.open("rb") as lines:
                first = orjson.loads(lines.readline())
            root, run_id = Path(first["followed"]), first["run_id"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if root.is_absolute() and isinstance(run_id, str | None):
            directories.append(Followed(root, run_id))
    return directories


def _ledgers(settings: Settings) -> Path:
    waiting = spill_dir(settings)
    return waiting.parent.parent / "tail" / waiting.name


class LedgerFile:
    """A ledger's journal, locked inside its context; `problem` says why it cannot be written to disk."""

    def __init__(self, path: Path, root: Path, run_id: str | None = None) -> None:
        self.problem: str | None = None
        self._path = path
        self._root = root
        self._run_id = run_id
        self._lock = FileLock(
            path.with_suffix(".lock"), mode=0o600, blocking=False, thread_local=False, fallback_to_soft=False
        )
        self._file: AppendOnlyFile | None = None

    def __enter__(self) -> Self:
        """Lock the file. Raises AlreadyFollowed if another process has it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock.acquire()
        except Timeout:
            raise AlreadyFollowed(self._root) from None
        except OSError as error:
            self._trouble(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.release()

    def load(self) -> Ledger:
        """The stored ledger. An incomplete last line is ignored, because its event was not published."""
        ledger = Ledger()
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            lines = []
        for line in lines:
            try:
                ledger.restore(orjson.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
        self._rewrite(list(ledger.dump()))
        return ledger

    def append(self, lines: Sequence[dict[str, Any]]) -> None:
        """Write the lines to the disk before returning, unless there is a `problem`."""
        if self._file is not None and lines:
            try:
                self._file.append(_written(lines))
            except OSError as error:
                self._trouble(error)

    def _rewrite(self, lines: Sequence[dict[str, Any]]) -> None:
        if self.problem is None:
            first = {"followed": os.path.abspath(self._root), "run_id": self._run_id}
            try:
                self._file = AppendOnlyFile.create(self._path, _written([first, *lines]))
            except OSError as error:
                self._trouble(error)

    def _trouble(self, error: OSError) -> None:
        self.problem = (
            f"cannot keep {self._path}: {error.strerror or error}. Results deleted while no `tail` is "
            "running will stay"
        )


def _written(lines: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(canonical_json(line) + b"\n" for line in lines)
