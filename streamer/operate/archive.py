"""An archive: a finished run in a bundle, deleted from the stack, and published elsewhere (docs/bundle.md).

The file comes first: it is written under another name, synced, read back and folded again, and must equal
Redis and the log. Only then is the run's deletion sent. A command that was killed at any step can be
repeated. Once the deletion is in the log, the command sends the same events again.

    .NAME.XXXX.partial   the unfinished file; the next try removes it after a kill
    NAME                 the archive, whole at any time
    .NAME.deletion       the events that delete the run, from before the first is sent until Redis has done it
    .NAME.lock           an empty lock file for one command at a time; it stays
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from filelock import FileLock

from streamer.client.capture import sync_directory, write_synced
from streamer.client.folded import RunLog
from streamer.client.queries import UnknownRun, is_chosen
from streamer.client.readers import StateReader
from streamer.folding.fold import CannotBeFolded, event_in
from streamer.folding.prices import PriceTable
from streamer.operate import bundle
from streamer.operate.bundle import Contents, NotABundle, is_rejected
from streamer.operate.health import wait_until_deleted
from streamer.operate.rows import file_name
from streamer.operate.verify import Mismatch, Standing, Verification, difference, fold_log
from streamer.schemas.base import SEMANTICS_VERSION, canonical_json, sha256_hex
from streamer.schemas.events import RunDeleted, RunFinished, RunStarted
from streamer.schemas.summaries import RunSummary, is_over, state_of
from streamer.schemas.wire import LogRecord, Reason
from streamer.settings import Settings
from streamer.storage.outbox import NotDelivered, Outgoing, ThreadedPublisher
from streamer.text import counted

Json = dict[str, Any]
Lines = Callable[[StateReader, int], list[Json]]


class CannotBeMoved(Exception):
    """A run or archive that cannot be moved; the message gives reason and remedy."""


class NotDone(Exception):
    """Events are published, but not yet in Redis; the message says what to check."""


# -----------------------------------------------------------------------------
# A bundle's content about a run, compared with the log and Redis.


def differences_from(
    contents: Contents, settings: Settings, run_id: str, prices: PriceTable, *, wait_seconds: float
) -> str | None:
    """The first difference between a bundle, the log and Redis about a run; None if they agree.

    For a bundle of another semantics version, which has other numbers, only log and Redis are compared.
    """
    [verdict] = Verification(settings, prices=prices, wait_seconds=wait_seconds).verify(run_id)
    if verdict.outcome != "equal":
        return verdict.reason or f"Redis and the log differ in {_named(verdict.differences)}"
    if contents.manifest["semantics_version"] != SEMANTICS_VERSION:
        return None
    log = fold_log(settings, prices=prices, run_id=run_id, scored=False).runs.get(run_id, {})
    stored = {key: value for (run, key), value in contents.summaries.items() if run == run_id}
    keys = sorted(log.keys() | stored.keys())
    differing = [one for key in keys if (one := difference(key, log.get(key), stored.get(key)))]
    return f"the file and the log differ in {_named(differing)}" if differing else None


def _named(differences: Iterable[Mismatch]) -> str:
    return "; ".join(f"{one.key} ({', '.join(one.fields) or 'missing'})" for one in differences)


def _damage(file: BinaryIO, name: str) -> str | None:
    try:
        wrong = [verdict for verdict in bundle.check_bundle(file, name) if verdict.outcome != "equal"]
    except NotABundle as error:
        return str(error)
    return "; ".join(f"{one.run_id}: {one.reason or _named(one.differences)}" for one in wrong) or None


# -----------------------------------------------------------------------------
# Archive a run.

MOST_AHEAD_NS = 24 * 3600 * 10**9
"""How far in the future a revision may be. A later deletion would ignore all results until then."""


@dataclass(frozen=True, slots=True)
class Archive:
    """One run and its archive file, in an existing directory.

    `lines` returns the events that keep the run's lines in its ledger at a revision; if it raises, the run
    stays. `without_rejected` archives a run despite its rejected records, which the file leaves out.
    """

    settings: Settings
    run_id: str
    out: Path
    prices: PriceTable
    lines: Lines
    wait_seconds: float = 15.0
    without_rejected: bool = False

    def make(self, digest: str | None = None) -> bool:
        """Archive the run, or finish an interrupted attempt; False if it was already archived.

        A given `digest` must still be the run's. Raises CannotBeMoved if nothing was done, and NotDone if the
        deleted run is still in Redis.
        """
        if not self.out.parent.is_dir():
            raise CannotBeMoved(f"There is no directory {self.out.parent}. Create it")
        for place in (self.out, self._journal):
            if place.is_symlink():
                raise CannotBeMoved(f"{place} is a symbolic link, and would be replaced. Name another file")
        # Two commands at once could both find that the run is not archived, and replace each other's file.
        with FileLock(self.out.with_name(f".{self.out.name}.lock")):
            return self._made(digest)

    def _made(self, digest: str | None) -> bool:
        own = re.compile(re.escape(f".{self.out.name}.") + "[0-9a-f]{8}[.]partial")
        for left in self.out.parent.glob(".*.partial"):
            if own.fullmatch(left.name):
                left.unlink(missing_ok=True)
        events = self._noted()
        if events and events[0] not in self._in_log(events):
            self._journal.unlink()  # nothing has happened, and perhaps nothing will
            events = []
        if not events:
            with StateReader(self.settings) as reader:
                if self._finished_run(reader) is None:
                    return False
                events = self._prepared(reader, digest)
            self._note(events)
            self._send(events[:1])
        self._end(events)
        return True

    def _finished_run(self, reader: StateReader) -> RunSummary | None:
        try:
            run = reader.run(self.run_id)
        except UnknownRun:
            if not self._is_done():
                raise
            return None
        if run.status == "archived" and not run.trials and self._is_done():
            return None
        if not is_over(run):
            raise CannotBeMoved(_unfinished(self.run_id, f"is {state_of(run, datetime.now(UTC))}"))
        return run

    def _is_done(self) -> bool:
        """Whether the log has the file's events, then the deletion. Raises CannotBeMoved for later events."""
        beyond = self._beyond(self._source().records)
        if not beyond or not _is_deletion(beyond[0]):
            return False
        self._refuse_late(beyond)
        return True

    def _refuse_late(self, beyond: Collection[LogRecord]) -> None:
        covered = max((_revision(one) for one in beyond if _is_deletion(one)), default=-1)
        late = {one.value for one in beyond if not _is_left(one) and _revision(one) <= covered}
        with self.out.open("rb") as file:
            late -= {one.value for one in Contents(file).records()} if late else set()
        if late:
            raise CannotBeMoved(
                f"{self.run_id} is archived in {self.out}. {counted(len(late), 'event')} arrived since. "
                "They are not in the file, and the deletion covers them. If they matter, publish them again "
                f"with revisions above {covered}"
            )

    def _beyond(self, records: Iterable[LogRecord]) -> list[LogRecord] | None:
        """The records after the events of the existing file; None if it has other events, or does
        not exist.
        """
        left = iter(records)
        try:
            with self.out.open("rb") as file:
                if all(_same(one, next(left, None)) for one in Contents(file).records()):
                    return list(left)
        except (FileNotFoundError, NotABundle):
            pass
        return None

    def _source(self) -> bundle.Source:
        return bundle.source_of_run(self.settings, self.run_id, is_history=False)

    def _prepared(self, reader: StateReader, digest: str | None = None) -> list[bytes]:
        now = time.time_ns()  # from before the log is read: newer events are not covered
        self._refuse_rejected()
        with self._written() as partial:
            with partial.open("rb") as file:
                contents = Contents(file)
                self._compare(contents)
                standing = Standing.of(contents.records(), self.run_id, self.prices)
                latest = max(contents.records(), key=_revision)
            if standing is None or standing.archived:
                raise CannotBeMoved(f"{self.run_id} has no trials, and {self.out} is not its archive")
            if standing.open_because:
                raise CannotBeMoved(_unfinished(self.run_id, standing.open_because))
            if digest not in (None, standing.digest):
                raise CannotBeMoved(f"{self.run_id} has changed since the plan was made: make another")
            if _revision(latest) > now + MOST_AHEAD_NS:
                raise CannotBeMoved(
                    f"{self.run_id} stays: its event at offset {latest.offset} has a revision a day ahead. "
                    "A deletion would cover everything until then. `streamer bundle` writes a file"
                )
            revision = max(now, _revision(latest))
            deletion = {"type": "run_deleted", "run_id": self.run_id, "revision": revision}
            events = [canonical_json(event) for event in (deletion, *self.lines(reader, revision + 1))]
            for event in events:
                if isinstance(reason := event_in(event)[0], Reason):
                    raise CannotBeMoved(f"{self.run_id} stays: its lines would be rejected: {reason.message}")
            self._place(partial)
        return events

    def _refuse_rejected(self) -> None:
        rejected = sum(is_rejected(one, self.run_id) for one in RunLog(self.settings, self.run_id).records())
        if rejected and not self.without_rejected:
            raise CannotBeMoved(
                f"{self.run_id} stays: {counted(rejected, 'record')} cannot be read, so the file would lack "
                f"them. `streamer rejections list --run {shlex.quote(self.run_id)}` shows them. If you have "
                "requeued them, or do not need them, give --without-rejected"
            )

    @contextmanager
    def _written(self, before: int | None = None) -> Iterator[Path]:
        """The bundle of the run's events before an offset (None: all), synced, read back and folded again."""
        partial = self.out.with_name(f".{self.out.name}.{os.urandom(4).hex()}.partial")
        source = self._source()
        source = replace(source, records=_before(source.records, before))
        try:
            with partial.open("xb+") as file:
                bundle.write_bundle(file, [source], self.prices)
                file.flush()
                os.fsync(file.fileno())
            with partial.open("rb") as file:
                if damage := _damage(file, self.out.name):
                    raise CannotBeMoved(f"{self.run_id}: the file is not what was written: {damage}")
            yield partial
        except (bundle.CannotBeBundled, CannotBeFolded, NotABundle) as error:
            raise CannotBeMoved(str(error)) from error
        finally:
            partial.unlink(missing_ok=True)

    def _compare(self, contents: Contents) -> None:
        wrong = differences_from(
            contents, self.settings, self.run_id, self.prices, wait_seconds=self.wait_seconds
        )
        if wrong:
            raise CannotBeMoved(f"{self.run_id} stays: {wrong}")

    def _place(self, partial: Path) -> None:
        with partial.open("rb") as file:
            beyond = self._beyond(Contents(file).records())
        if self.out.exists() and (beyond is None or any(map(_is_deletion, beyond))):
            raise CannotBeMoved(
                f"{self.out} exists and is not an archive of {self.run_id}'s present events. Choose another: "
                f"`{command_for(self.run_id, 'OTHER')}`"
            )
        partial.replace(self.out)
        sync_directory(self.out.parent)

    @property
    def _journal(self) -> Path:
        return self.out.with_name(f".{self.out.name}.deletion")

    def _noted(self) -> list[bytes]:
        events = _lines_in(self._journal)
        if events and (run_id := _run_deleted(events)) != self.run_id:
            raise CannotBeMoved(
                f"{self.out} belongs to {run_id}, whose archive was interrupted. Finish that first: "
                f"`{command_for(run_id, self.out)}`"
            )
        return events

    def _note(self, events: list[bytes]) -> None:
        write_synced(self._journal, b"".join(event + b"\n" for event in events))

    def _in_log(self, events: Collection[bytes]) -> dict[bytes, LogRecord]:
        there: dict[bytes, LogRecord] = {}
        for record in RunLog(self.settings, self.run_id).records():
            if record.value is not None and record.value in events:
                there.setdefault(record.value, record)
        return there

    def _send(self, events: Iterable[bytes]) -> None:
        try:
            with ThreadedPublisher(self.settings) as publisher:
                for event in events:
                    publisher.send(Outgoing(self.run_id.encode(), event))
        except NotDelivered as error:
            raise NotDone(
                f"{self.run_id}: the broker at {self.settings.bootstrap} did not acknowledge its deletion. "
                f"Run `{command_for(self.run_id, self.out)}` again"
            ) from error

    def _end(self, events: list[bytes]) -> None:
        """Finish once the deletion is in the log. The ledger's lines are first, to survive a failure."""
        there = self._in_log(events)
        self._send(event for event in events if event not in there)
        self._complete(there[events[0]].offset)
        left = Standing.of(self._source().records, self.run_id, self.prices)
        if left and not left.archived:
            self._journal.unlink(missing_ok=True)
            raise CannotBeMoved(
                f"{self.run_id} is archived in {self.out}, and has started again with later events. Once it "
                f"finishes, archive it to another file: `{command_for(self.run_id, 'OTHER')}`"
            )
        with StateReader(self.settings) as reader:
            kept = left is not None
            if not wait_until_deleted(reader, self.run_id, archived=kept, seconds=self.wait_seconds):
                raise NotDone(
                    f"{self.run_id}: {self.out} is complete and the deletion is published, but after "
                    f"{self.wait_seconds:g} s the run is still in Redis. A worker will remove it: `streamer "
                    "status` shows whether one is running"
                )
        beyond = self._beyond(self._source().records) or ()
        self._journal.unlink(missing_ok=True)
        self._refuse_late(beyond)

    def _complete(self, deleted_at: int) -> None:
        """Add the events between the comparison and the first deletion, which may come from another
        command.
        """
        beyond = self._beyond(self._source().records)
        if beyond is not None:
            deleted_at = next((one.offset for one in beyond if _is_deletion(one)), deleted_at)
            if not list(_before(beyond, deleted_at)):
                return
        with self._written(deleted_at) as partial:
            self._place(partial)


def command_for(run_id: str, out: object) -> str:
    """The command that archives a run, quoted for the shell, since the id may be any text.

    >>> command_for("my run", "run.tar")
    "streamer archive 'my run' run.tar"
    """
    return shlex.join(["streamer", "archive", run_id, str(out)])


def _before(records: Iterable[LogRecord], offset: int | None) -> Iterable[LogRecord]:
    return records if offset is None else takewhile(lambda record: record.offset < offset, records)


def _same(one: LogRecord, other: LogRecord | None) -> bool:
    place = other and (other.offset, other.timestamp, other.value)
    return (one.offset, one.timestamp, one.value) == place


def _is_deletion(record: LogRecord) -> bool:
    return isinstance(event_in(record.value)[0], RunDeleted)


def _is_left(record: LogRecord) -> bool:
    event, *_ = event_in(record.value)
    if isinstance(event, RunStarted):
        return event.ledger is not None and event.ledger.lines is not None
    return isinstance(event, RunDeleted) or (isinstance(event, RunFinished) and event.status == "archived")


def _unfinished(run_id: str, because: str) -> str:
    return (
        f"{run_id} {because}, and only finished runs can be archived. If no more results will arrive, "
        "publish a run_finished event with a later revision, status completed and scores_pending false"
    )


def _lines_in(journal: Path) -> list[bytes]:
    events = journal.read_bytes().splitlines() if journal.exists() else []
    return events if events and isinstance(event_in(events[0])[0], RunDeleted) else []


def _run_deleted(events: list[bytes]) -> str:
    return str(orjson.loads(events[0])["run_id"])


def _revision(record: LogRecord) -> int:
    event, *_ = event_in(record.value)
    assert not isinstance(event, Reason), "only events of the run are in its bundle"
    return event.revision


# -----------------------------------------------------------------------------
# A policy for archiving runs, by label and age. It is shown first, then confirmed by its hash.


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """Runs to archive, for the user to confirm; `kept` runs are not part of the hash."""

    folder: Path
    runs: tuple[tuple[str, str, str], ...]
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def content(self) -> bytes:
        return canonical_json({"folder": str(self.folder), "runs": self.runs})

    @property
    def hash(self) -> str:
        return sha256_hex(self.content)[:16]

    @property
    def file(self) -> Path:
        return self.folder / f"plan-{self.hash}.json"

    @classmethod
    def of(
        cls,
        runs: Iterable[RunSummary],
        folder: Path,
        *,
        before: datetime | None,
        labels: Mapping[str, str],
        baselines: Collection[str],
        standing: Callable[[str], Standing | None],
    ) -> ArchivePlan:
        """Choose runs by `labels`, or with a last event before `before`, except those that a ledger needs."""
        chosen, kept = list[tuple[str, str, str]](), list[tuple[str, str]]()
        for run in sorted(runs, key=lambda run: run.run_id):
            is_old = before is None or (run.last_event_at is not None and run.last_event_at < before)
            is_gone = run.status == "archived" and not run.trials and run.ledger is not None
            if not is_old or not is_chosen(run, None, labels) or is_gone:
                continue
            if not is_over(run):
                kept.append((run.run_id, state_of(run, datetime.now(UTC))))
            elif run.run_id in baselines:
                kept.append((run.run_id, "the baseline of a ledger"))
            elif (own := standing(run.run_id)) is None:
                kept.append((run.run_id, "the log does not have it, or it cannot be folded"))
            elif reason := own.open_because or ("has no trials" if own.archived else None):
                kept.append((run.run_id, reason))
            else:
                chosen.append((run.run_id, own.digest, f"{file_name(run.run_id)}.tar"))
        return cls(folder.resolve(), tuple(chosen), tuple(kept))

    @classmethod
    def confirmed(cls, folder: Path, plan_hash: str) -> ArchivePlan | None:
        file = folder / f"plan-{plan_hash}.json"
        content = file.read_bytes() if file.exists() else b""
        if sha256_hex(content)[:16] != plan_hash:
            return None
        plan = cls(folder.resolve(), tuple(map(tuple, orjson.loads(content)["runs"])))
        return plan if plan.hash == plan_hash else None

    def confirm(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_synced(self.file, self.content)

    def broken_off(self) -> list[tuple[str, Path]]:
        planned = {self.folder / name for _, _, name in self.runs}
        journals = {one: _lines_in(one) for one in sorted(self.folder.glob(".*.deletion"))}
        files = (
            (_run_deleted(events), one.with_name(one.name[1:].removesuffix(".deletion")))
            for one, events in journals.items()
            if events
        )
        return [(run_id, file) for run_id, file in files if file not in planned]


# -----------------------------------------------------------------------------
# Publish an archive again.


def restore(
    settings: Settings, file: BinaryIO, name: str, prices: PriceTable, *, wait_seconds: float
) -> tuple[dict[str, int], bool]:
    """Publish the events of a bundle again, with their bytes and times.

    It publishes everything or nothing. Events in the log are not published again, so it is safe to repeat.
    Returns the number of events of each run, and whether Redis was compared with the file.

    Raises:
        NotABundle: the file is not a bundle, or is damaged.
        CannotBeMoved: nothing was published.
        NotDone: Redis does not have the same numbers; the message says whether it ever will.
    """
    contents = Contents(file)
    is_ours = contents.manifest["semantics_version"] == SEMANTICS_VERSION
    if is_ours and (damage := _damage(file, name)):
        raise NotABundle(f"{name} does not match its events: {damage}")
    expected = _expected(contents, name)
    held = {run_id: _held(settings, run_id, own, name) for run_id, own in expected.items()}
    try:
        with ThreadedPublisher(settings) as publisher:
            for record in contents.records():
                run_id = _run_of(record)
                if held[run_id][of := _print(record)]:
                    held[run_id][of] -= 1
                else:
                    key, value = run_id.encode(), record.value or b""
                    publisher.send(Outgoing(key, value, record.timestamp))
    except NotDelivered as error:
        raise NotDone(
            f"{name} is only partly published: the broker at {settings.bootstrap} did not acknowledge the "
            "rest. Run the same command again to publish what is missing"
        ) from error
    for run_id, own in expected.items():
        try:
            left = own - _held(settings, run_id, own, name)
        except CannotBeMoved:  # which was not so before
            left = own
        if left:
            raise NotDone(
                f"{run_id} is published, but its events in the log differ from those in {name}. Does the "
                "topic have message.timestamp.type=CreateTime? Does another process publish this run?"
            )
        wrong = differences_from(contents, settings, run_id, prices, wait_seconds=wait_seconds)
        if wrong:
            raise NotDone(f"{run_id} is published, but not as in {name}: {wrong}")
    return {run_id: own.total() for run_id, own in expected.items()}, is_ours


def _expected(contents: Contents, name: str) -> dict[str, Counter[str]]:
    if any(source["kind"] != "log" for source in contents.manifest["sources"]):
        raise CannotBeMoved(
            f"{name} has events from files, which have no log offset or time. Unpack events.ndjson "
            "with `tar -x`, and use `streamer publish`"
        )
    expected: dict[str, Counter[str]] = {}
    for record in contents.records():
        expected.setdefault(_run_of(record), Counter())[_print(record)] += 1
    return expected


def _run_of(record: LogRecord) -> str:
    event, *_ = event_in(record.value)
    if isinstance(event, Reason):
        raise CannotBeMoved(
            f"this release cannot read the record at offset {record.offset} as an event: {event.message}. "
            "Restore it with the release that made it"
        )
    return event.run_id


def _print(record: LogRecord) -> str:
    return sha256_hex(b"%d %b" % (record.timestamp, record.value or b""))


def _held(settings: Settings, run_id: str, expected: Counter[str], name: str) -> Counter[str]:
    held, others, deletions = Counter[str](), 0, list[int]()
    for record in RunLog(settings, run_id).records():
        event, *_ = event_in(record.value)
        if isinstance(event, Reason) or event.run_id != run_id:
            continue
        if (of := _print(record)) in expected:
            held[of] += 1
            continue
        others += 1
        if isinstance(event, RunDeleted):
            deletions.append(event.revision)
    if deletions:
        raise CannotBeMoved(
            f"{run_id} was deleted here up to revision {max(deletions)}: its events would be ignored. "
            "Restore it on another stack, or on this one in another --namespace"
        )
    if others:
        raise CannotBeMoved(
            f"{run_id} exists here: the log has {counted(others, 'event')} that {name} does not have. "
            "Restore it on another stack, or on this one in another --namespace"
        )
    return held
