"""The tables of state pages and summaries: rows in memory or RocksDB, and how Faust recovers them.

Faust's tables refuse writes outside a stream, and their sends cannot be awaited. So `producer` writes the
changelog record, and the store gets it after the acknowledgement. Faust recovers the tables from their
changelogs, from the offset up to which the store is complete.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import shutil
import time
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import faust
import orjson
from faust.stores import base, rocksdb
from faust.stores import memory as memory_store
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP
from filelock import BaseFileLock, FileLock, Timeout
from mode import Service
from mode.utils.queues import ThrowableQueue
from msgspec import Meta, Struct, convert

from streamer.schemas.base import MAX_COUNT, GroupId, SummaryKind, run_of_key
from streamer.schemas.wire import NO_TIMESTAMP
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import LOG_KEY, current_log, leave_out, meta_records, quarantined_run
from streamer.storage.outbox import ProducerRecord, RecordsRefused, store

# -----------------------------------------------------------------------------
# The records of the changelogs that are rows. Others may write there, too, and no record may end the worker.


_Number = Annotated[int, Meta(ge=-1, le=MAX_COUNT)]


class _SummaryRow(Struct):
    epoch: _Number
    state_version: _Number
    digest: str


class _QuarantineRow(Struct):
    reason: str
    at: _Number
    deleted_to: int | None


class _CheckpointRow(Struct):
    complete_from: _Number | None = None
    basis: str | None = None
    lost: tuple[tuple[_Number, _Number], ...] = ()
    scored_to: _Number = 0


COVERED = "/covered/"
"""Prefix of a checkpoint's key. Run ids are never empty, so no page's key begins like this."""

_PAGE_KEY = re.compile(r"[^/]+/[^/]+/[0-9]+")
_SHOWN_KEY = 200


class NoRow(ValueError):
    """A changelog record that is not a row of its table; the text ends the sentence "The record ..."."""


class NoValue(NoRow):
    """A row's key with a meaningless value: the row is removed, and published again."""


Refuse = Callable[[str, bytes | None], None]
"""A check of a record's key and value (None: a tombstone) that raises NoRow for an invalid row."""


def row_key(raw: bytes | None) -> str:
    if not raw:
        raise NoRow("has no key")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoRow(f"has a key that is not UTF-8 ({error.reason} at byte {error.start})") from None


def refuse_page(key: str, value: bytes | None) -> None:
    """Raise NoRow for a record that is not a state page. An unreadable page fails its run instead."""
    if not (key.startswith("/") or _PAGE_KEY.fullmatch(key)):
        raise NoRow(f"has the key {key[:_SHOWN_KEY]!r}, but a page has RUN/WRITER/NUMBER")
    layout: Any = (
        _QuarantineRow if quarantined_run(key) else _CheckpointRow if key.startswith(COVERED) else None
    )
    if layout is None or value is None:
        return
    try:
        convert(orjson.loads(value), layout)
    except ValueError as error:
        raise NoRow(f"has the key {key[:_SHOWN_KEY]!r} and another value ({error})") from None


def refuse_summary(kind: SummaryKind, key: str, value: bytes | None) -> None:
    run_id, group = run_of_key(key), None
    with suppress(ValueError, IndexError):
        group = GroupId.of_topic_key(kind, key)
    if not run_id or group is None or group.kind != kind or group.topic_key(run_id) != key:
        raise NoRow(f"has the key {key[:_SHOWN_KEY]!r}, which no summary in this topic has")
    try:
        if value is not None:
            convert(orjson.loads(value), _SummaryRow)
    except ValueError as error:
        raise NoValue(f"holds no summary ({error})") from None


# -----------------------------------------------------------------------------
# The rows of the tables: in memory, or in RocksDB on local disk, by partition.
#
# For each partition, a store knows the offset of the changelog up to which it is complete. The worker's own
# writes count only without others' records between them: recovery begins after this offset, and must not skip
# others' records. A row enters the store only after the changelog has it: a page that only a local disk has
# would make its events look saved.


StoreRow = tuple[bytes, bytes | None]

TRUST_SECONDS = 12 * 60 * 60.0
"""Older rows on disk are dropped: the changelog may have removed tombstones that they need."""

STAMP_SECONDS = 60.0

LOCKED = "/LOCK: "


class Rows(base.Store[bytes, bytes]):
    logger = logging.getLogger("faust.streamer")
    refuse: Refuse = staticmethod(lambda _key, _value: None)

    @abstractmethod
    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a partition; no rows if this worker does not hold it."""

    @abstractmethod
    def row(self, key: bytes) -> bytes | None:
        """Value of a key, None if there is none."""

    @abstractmethod
    def partitions(self) -> list[int]:
        """Partitions held, including standby ones."""

    @abstractmethod
    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        """Write rows. The partition is then complete up to the offset `complete_to`; None: unchanged."""

    @abstractmethod
    def let_go(self, partition: int) -> None:
        """Close a partition that this worker lost; its files stay."""

    @abstractmethod
    def forget(self, partition: int) -> None:
        """Drop a partition, to recover it from the beginning of the changelog."""

    def wrote(self, tp: TP, first: int, rows: Sequence[StoreRow]) -> None:
        """Apply the worker's own records, which the changelog has from offset `first` on."""
        if tp.partition not in self.partitions():
            return
        known = self.persisted_offset(tp)
        last = first + len(rows) - 1
        # The offset moves only without a gap: others' records in between are still to be read in a recovery.
        gapless = first == 0 if known is None else known < last and first <= known + 1
        self.apply(tp.partition, rows, last if gapless else None)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:
        """Apply changelog records in order; Faust sometimes passes other workers' partitions."""
        stored, topics = self.partitions(), self.table.changelog_topic.topics
        result: dict[int, tuple[list[StoreRow], int]] = {}
        for event in batch:
            message = event.message
            if message.partition in stored and message.topic in topics:
                rows, _ = result.get(message.partition, ([], 0))
                result[message.partition] = rows, message.offset
                rows += self._row_of(message)
        for partition, (rows, last) in result.items():
            self.apply(partition, rows, last)

    def _row_of(self, message: Any) -> list[StoreRow]:
        try:
            self.refuse(row_key(message.key), message.value)
        except NoRow as error:
            leave_out(message, str(error))
            return [(message.key, None)] if isinstance(error, NoValue) else []
        return [(message.key, message.value)]

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Keep the rows of standby partitions."""


class MemoryRows(Rows, memory_store.Store[bytes, bytes]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rows: dict[int, dict[bytes, bytes]] = {}
        self._complete_to: dict[int, int] = {}

    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        yield from self._rows.get(partition, {}).items()

    def row(self, key: bytes) -> bytes | None:
        return next((rows[key] for rows in self._rows.values() if key in rows), None)

    def partitions(self) -> list[int]:
        return list(self._rows)

    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        stored = self._rows.setdefault(partition, {})
        for key, value in rows:
            if value is None:
                stored.pop(key, None)
            else:
                stored[key] = value
        if complete_to is not None:
            self._complete_to[partition] = complete_to

    def let_go(self, partition: int) -> None:
        self.forget(partition)

    def forget(self, partition: int) -> None:
        self._rows.pop(partition, None)
        self._complete_to.pop(partition, None)

    def persisted_offset(self, tp: TP) -> int | None:
        return self._complete_to.get(tp.partition)

    async def on_rebalance(self, assigned: set[TP], *args: Any, **kwargs: Any) -> None:
        mine = {tp.partition for tp in assigned if tp.topic in self.table.changelog_topic.topics}
        for partition in self._rows.keys() - mine:
            self.let_go(partition)
        for partition in mine:
            self._rows.setdefault(partition, {})


class RocksRows(rocksdb.Store, Rows):
    """Rows in RocksDB by Faust's driver, one database for each partition, with its offset inside.

    After a SIGKILL, rows and offset still belong together. The changelog has everything, so a database older
    than `TRUST_SECONDS` is dropped, and an unreadable one is moved aside.
    """

    logger = logging.getLogger("faust.streamer")
    stamp_key = b"__streamer\0current__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from rocksdict import WriteBatch  # of the extra `rocksdb`

        super().__init__(*args, **kwargs)
        self._new_batch = WriteBatch

    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        if partition in self._dbs:
            for at in _each(self._dbs[partition]):
                if (key := at.key()) not in (self.offset_key, self.stamp_key):
                    yield key, at.value()

    def row(self, key: bytes) -> bytes | None:
        result: Iterator[bytes | None] = (db.get(key) for db in self._dbs.values())
        return next((value for value in result if value is not None), None)

    def partitions(self) -> list[int]:
        return list(self._dbs)

    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        batch = self._new_batch(raw_mode=True)
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        if complete_to is not None:
            batch.put(self.offset_key, b"%d" % complete_to)
            batch.put(self.stamp_key, _now())
        self._db_for_partition(partition).write(batch)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:
        Rows.apply_changelog_batch(self, batch, to_key, to_value)

    def forget(self, partition: int) -> None:
        self.let_go(partition)
        shutil.rmtree(self.partition_path(partition), ignore_errors=True)

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close partitions of other workers; their files stay, in case the partitions come back."""
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self.let_go(tp.partition)

    async def stop(self) -> None:
        for partition in self.partitions():
            self.let_go(partition)

    @Service.task
    async def _keep_current(self) -> None:
        """Mark the rows as current at intervals, even if nothing is written."""
        while not self.should_stop:
            await self.sleep(STAMP_SECONDS)
            for db in self._dbs.values():
                db.put(self.stamp_key, _now())

    def let_go(self, partition: int) -> None:
        db = self._dbs.pop(partition, None)
        if db is not None:
            db.put(self.stamp_key, _now())
            db.close()

    def _open_for_partition(self, partition: int) -> Any:
        path, db, damage, why = self.partition_path(partition), None, "", ""
        try:
            db = super()._open_for_partition(partition)
            why = self._why_not(db)
        except Exception as error:
            if LOCKED in str(error):
                raise  # still held by this process: Faust tries again
            damage = " ".join(str(error).split())
        if not (damage or why):
            return db
        if db is not None:
            db.close()
        if damage:
            aside = _set_aside(path)
            self.log.warning(
                "%s is damaged (%s). It is moved to %s, and its partition is read again from Kafka. Check "
                "the disk, then delete the moved files",
                *(path, damage, aside),
            )
        else:
            self.log.warning("%s is dropped and recovered from the changelog: %s", path, why)
            shutil.rmtree(path, ignore_errors=True)
        return super()._open_for_partition(partition)

    def _why_not(self, db: Any) -> str:
        """The reason why a database is useless; "" if it is good. Only reading all rows finds damage."""
        for _ in _each(db):
            pass
        offset, stamp = db.get(self.offset_key), db.get(self.stamp_key)
        if offset is None:
            return "its recovery was never finished" if next(iter(db.keys()), None) is not None else ""
        age = abs(time.time() - float(stamp or 0))
        return f"last current {age / 3600:.0f} hours ago" if age > TRUST_SECONDS else ""


def _each(db: Any) -> Iterator[Any]:
    """RocksDB's iterator at each row. It raises at a damaged block, where other iterators end silently."""
    from rocksdict import ReadOptions  # of the extra `rocksdb`

    options: Any = ReadOptions()  # its type stub leaves the argument out
    options.fill_cache(False)
    at = db.iter(options)
    at.seek_to_first()
    while at.valid():
        yield at
        at.next()
    at.status()


def _set_aside(path: Path) -> Path:
    """Rename a damaged database, replace an earlier damaged one, and return the new path."""
    aside = path.with_name(f"{path.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    return aside


def _now() -> bytes:
    return b"%d" % time.time()


StoreOf = Callable[[Any, Any], Rows]

ROCKSDB_OPTIONS: Mapping[str, int] = {
    "max_open_files": 256,
    "write_buffer_size": 8 * 1024 * 1024,
    "max_write_buffer_number": 2,
    "target_file_size_base": 32 * 1024 * 1024,
    "block_cache_size": 8 * 1024 * 1024,
}
"""Settings of each database; a worker has one per table and partition. Faust's own would take gigabytes."""


def memory(app: Any, table: Any) -> Rows:
    return MemoryRows("memory://", app, table)


def rocks(app: Any, table: Any) -> Rows:
    return RocksRows("rocksdb://", app, table, options=dict(ROCKSDB_OPTIONS), driver="rocksdict")


def in_directory(directory: Path | None) -> StoreOf:
    return memory if directory is None else rocks


# -----------------------------------------------------------------------------
# Faust's tables, written per partition: the source of truth `trials` and the four published aggregates.


Write = Callable[[Iterable[ProducerRecord]], Awaitable[None]]


class StateTable:
    """One table of bytes by bytes. `save` is the only way to write; Faust recovers it from its changelog."""

    def __init__(self, table: Any, store: StoreOf, write: Write) -> None:
        self.topic: str = table.changelog_topic.get_topic_name()
        self.faust = table
        self.rows = store(table.app, table)
        table._data = self.rows
        self._write = write
        self._unacknowledged: dict[bytes, bytes | None] = {}

    async def save(
        self, records: Iterable[ProducerRecord], refused: Callable[[RecordsRefused], None] | None = None
    ) -> None:
        """Write rows to the changelog. On return the broker and the table have them.

        `refused` gets the records that are too large for the broker; without it RecordsRefused is raised. All
        other records are saved.
        """
        rows = list(records)
        try:
            if rows:
                await self._write(rows)
        except RecordsRefused as refusal:
            if refused is None:
                raise
            refused(refusal)

    def put(self, partition: int, key: str, value: bytes | None) -> ProducerRecord:
        return ProducerRecord(self.topic, partition, key.encode("utf-8"), value)

    def publish(self, partition: int, key: str, value: bytes | None) -> ProducerRecord:
        out = self.put(partition, key, value)
        self._unacknowledged[key.encode("utf-8")] = value
        return out

    def published(self, key: str) -> bytes | None:
        """The last published value, even if it is not yet acknowledged."""
        raw = key.encode("utf-8")
        return self._unacknowledged[raw] if raw in self._unacknowledged else self.rows.row(raw)

    def take_back(self, of_run: Callable[[str], bool]) -> None:
        for raw in [raw for raw in self._unacknowledged if of_run(raw.decode("utf-8"))]:
            del self._unacknowledged[raw]

    def wrote(self, tp: TP, first: int, rows: Sequence[StoreRow]) -> None:
        self.rows.wrote(tp, first, rows)
        for key, value in rows:
            if key in self._unacknowledged and self._unacknowledged[key] is value:
                del self._unacknowledged[key]

    def get(self, key: str) -> bytes | None:
        return self.rows.row(key.encode("utf-8"))

    def of_partition(self, partition: int) -> Iterator[tuple[str, bytes]]:
        for raw, value in self.rows.rows(partition):
            with suppress(NoRow):
                yield row_key(raw), value


class Tables:
    """The five tables: state pages (`trials`), the source of truth, and the summaries by kind."""

    def __init__(self, trials: StateTable, summaries: dict[SummaryKind, StateTable]) -> None:
        self.trials = trials
        self.summaries = summaries
        self._by_topic = {table.topic: table for table in self.all()}
        trials.rows.refuse = refuse_page
        for kind, table in summaries.items():
            table.rows.refuse = partial(refuse_summary, kind)

    def all(self) -> list[StateTable]:
        return [self.trials, *self.summaries.values()]

    def summary_rows(self, records: Iterable[ProducerRecord]) -> dict[tuple[SummaryKind, str], bytes | None]:
        kinds = {table.topic: kind for kind, table in self.summaries.items()}
        keys = [(kinds[one.topic], (one.key or b"").decode()) for one in records if one.topic in kinds]
        return {(kind, key): self.summaries[kind].get(key) for kind, key in keys}

    def on_recovered(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call back after each recovery, before any event of the partitions arrives."""
        self.trials.faust.on_recover(callback)

    def written(self, topic: str, partition: int, first: int, records: Sequence[ProducerRecord]) -> None:
        if topic in self._by_topic:
            rows = [(record.key or b"", record.value) for record in records]
            self._by_topic[topic].wrote(TP(topic, partition), first, rows)


# -----------------------------------------------------------------------------
# How Faust recovers the tables from their changelogs, with its faults fixed.


log = logging.getLogger(__name__)

STANDBY_CHECK_SECONDS = 1.0
LOOKS_AT_AN_END = 3
"""Checks, one a second, that must find a changelog at its end before records count as missing."""


class RecoveryIncomplete(RuntimeError):
    def __init__(self, topic: str, partition: int, reached: object, end: object) -> None:
        super().__init__(
            f"partition {partition} of {topic} was recovered only up to offset {reached} of {end}; "
            "continuing would publish from partial state. The worker ends; start it again"
        )


def rebalances(app: Any) -> int:
    return int(app.rebalancing_count)


class PatientRecovery(Recovery):
    """Faust's recovery, with three of its faults fixed.

    - It mistakes a timeout for a stop and ends silently, so the worker keeps its partitions and never folds a
      record. Here only the client's calls time out.
    - It resumes the event partitions before it seeks them to their committed offsets, and clears the streams'
      queues afterwards. Records fetched in between are lost until the next rebalance. Here the event
      partitions are resumed last.
    - It ignores another rebalance while it reads changelogs, and completes too early. Here it ends quietly,
      and the other rebalance's recovery follows.
    """

    logger = logging.getLogger("faust.streamer")

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ASYNC109
        await super()._wait(coro, timeout=None)

    def _add(self, table: Any, tp: TP, offsets: Any) -> None:
        """Continue from the store's offset; Faust would use the offset of a store that no longer exists."""
        self.tp_to_table[tp] = table
        offsets[tp] = table.persisted_offset(tp)

    async def _build_offsets(self, consumer: Any, tps: set[TP], destination: Any, title: str) -> None:
        """Drop local rows beyond the end of the changelog: they belong to another changelog."""
        claimed = {tp: offset for tp in tps if (offset := destination[tp]) is not None and offset >= 0}
        for tp, end in (await consumer.highwaters(*claimed) if claimed else {}).items():
            if claimed[TP(*tp)] >= (end or 0):
                log.warning("%s: local rows past its end are dropped", TP(*tp))
                cast(Any, self.tp_to_table[TP(*tp)]).data.forget(tp.partition)
                destination[TP(*tp)] = None
        await super()._build_offsets(consumer, tps, destination, title)
        if title == "active":
            ends = self.active_highwaters
            unread = sum(max(ends[tp] - destination[tp], 0) for tp in tps)
            log.info("recovery: %d records of the changelogs to read, %d partitions", unread, len(tps))

    @Service.task
    async def _tell_of_standbys(self) -> None:
        told = 0
        while not self.should_stop:
            await self.sleep(STANDBY_CHECK_SECONDS)
            reached = {tp: self.standby_offsets[tp] for tp in self.standby_tps}
            copied = sum((offset or 0) + 1 for offset in reached.values() if offset is not None)
            if copied != told:
                ends = {tp: self.app.consumer.highwater(tp) or 0 for tp in reached}
                behind = sum(max(end - 1 - (reached[tp] or 0), 0) for tp, end in ends.items())
                log.info("standby: %d changelog records copied, %d behind", copied, behind)
            told = copied

    @Service.task
    async def _pass_unread_ends(self) -> None:
        """Skip the end of a changelog whose last record batch is unreadable, because Faust waits for it."""
        looks: Counter[tuple[TP, int, int | None]] = Counter()
        while not self.should_stop:
            await self.sleep(1.0)
            unread = await self._unread_ends()
            looks = Counter({place: looks[place] + 1 for place in unread})
            for place in [place for place, count in looks.items() if count >= LOOKS_AT_AN_END]:
                tp, _, reached = place
                end = self.active_highwaters[tp]
                log.warning("%s: no record after offset %s can be read; it ends at %d", tp, reached, end)
                self.active_offsets[tp] = end
                del looks[place]

    async def _unread_ends(self) -> list[tuple[TP, int, int | None]]:
        """Changelogs that were fetched to the end but not fully read, with the rebalance and the offset
        reached. A position counts only once the recovery of this rebalance has sought it.
        """
        result = []
        sought = self._sought == self._rebalance == rebalances(self.app)
        if sought and self.in_recovery and self.tables.changelog_queue.empty():
            for tp in list(self.active_tps):
                end, reached = self.active_highwaters.get(tp), self.active_offsets.get(tp)
                if end is not None and (reached is None or reached < end):
                    position = await self.app.consumer.position(tp)
                    if position is not None and position > end:
                        result.append((tp, rebalances(self.app), reached))
        return result

    async def _seek_offsets(self, consumer: Any, tps: set[TP], offsets: Any, title: str) -> None:
        rebalance = self._rebalance
        await super()._seek_offsets(consumer, tps, offsets, title)
        if title == "active":
            self._sought = rebalance

    _rebalance = 0
    _sought = -1

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        self._rebalance = rebalances(self.app)
        self._sought = -1
        self.tables.changelog_queue.clear()
        await super().on_rebalance(*args, **kwargs)

    def _overtaken(self, generation_id: int) -> bool:
        """Whether another rebalance has begun: its recovery follows, so this one must not resume."""
        return self._rebalance != rebalances(self.app) or self.app.consumer_generation_id != generation_id

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Rebuild what depends on the tables, then let the events in."""
        if self._overtaken(generation_id):
            return
        consumer = self.app.consumer
        await self.app.on_rebalance_complete.send()
        self._set_recovery_ended()
        for table in self.tables.values():
            await table.on_recovery_completed(self.actives_for_table[table], self.standbys_for_table[table])
        if consumer.assignment() and not self._overtaken(generation_id):
            await self._wait(consumer.perform_seek())
        if self._overtaken(generation_id):
            return
        self.completed.set()
        self.app.flow_control.resume()
        consumer.resume_flow()
        consumer.resume_partitions({tp for tp in consumer.assignment() if not self._is_changelog_tp(tp)})
        await cast(faust.app.base.App, self.app)._fetcher.maybe_start()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        self.app.on_rebalance_end()


class ChangelogQueue(ThrowableQueue[Any]):
    """A queue of changelog records that were fetched since the last rebalance.

    An older record would precede records that are read again, and Faust skips records older than the last.
    """

    app: faust.App

    def _put(self, event: Any) -> None:
        if event.message.generation_id == self.app.consumer_generation_id:
            super()._put(event)


class PatientTableManager(TableManager):
    """Faust's table manager with `PatientRecovery` and `ChangelogQueue`, and without its pause of a
    second.
    """

    logger = logging.getLogger("faust.streamer")

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()

    @property
    def changelog_queue(self) -> ThrowableQueue[Any]:
        if self._changelog_queue is None:
            queue = ChangelogQueue(
                maxsize=self.app.conf.stream_buffer_maxsize,
                flow_control=self.app.flow_control,
                clear_on_resume=True,
            )
            queue.app = cast(faust.App, self.app)
            self._changelog_queue = queue
        return self._changelog_queue

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    def check_recovered(self) -> None:
        """Raise RecoveryIncomplete unless every changelog of this worker was read to its end."""
        recovery = self.recovery
        for tp in recovery.active_tps:
            end, reached = recovery.active_highwaters.get(tp), recovery.active_offsets.get(tp)
            if end is None or reached is None or reached < end:
                raise RecoveryIncomplete(tp.topic, tp.partition, reached, end)


# -----------------------------------------------------------------------------
# The directory of a worker that keeps its tables on local disk.
#
# Under the data directory: `state/NAMESPACE/LOG/N`. LOG names the log that the rows were recovered from. So
# after a broker was set up again, old rows are not mistaken for new ones. N is the first number that no other
# worker of this machine holds, because workers may share a data directory.


MAX_WORKERS = 1_000


class StateUnavailable(Exception):
    """Tables cannot be kept on local disk; the message gives reason and advice."""


async def log_name(settings: Settings, *, begins: bool = False) -> str:
    """The name of this deployment's log, which the first worker chooses; `begins` replaces an old one."""
    name = None if begins else current_log(await meta_records(settings))
    if name is None:
        new = uuid.uuid4().hex[:12]
        await write_log_name(settings, *([None] if begins else []), new)
        name = current_log(await meta_records(settings)) or new
        if name != new:  # another worker was faster; compaction keeps only the last record
            await write_log_name(settings, name)
    return name


async def write_log_name(settings: Settings, *names: str | None) -> None:
    topic = Names(settings.namespace).streamer_meta
    values = (None if name is None else name.encode() for name in names)
    await store(settings, [ProducerRecord(topic, 0, LOG_KEY, value, NO_TIMESTAMP) for value in values])


@contextmanager
def locked_directory(settings: Settings, log: str) -> Iterator[Path]:
    """A locked directory for the state of one worker; raises StateUnavailable."""
    if importlib.util.find_spec("rocksdict") is None:
        raise StateUnavailable(
            "the setting store=rocksdb needs the package rocksdict: pip install 'trialstream[rocksdb]', "
            "or choose store=memory"
        )
    parent = settings.data_root / "state" / (settings.namespace or "default") / log
    try:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory, lock = _first_free(parent)
        _remove_older(parent)
    except OSError as error:
        raise StateUnavailable(
            f"cannot keep tables under {parent}: {error.strerror}. Choose another data_dir, or store=memory"
        ) from error
    try:
        yield directory
    finally:
        lock.release()


def _first_free(parent: Path) -> tuple[Path, BaseFileLock]:
    """The first directory that no running process holds, and its lock, which ends with the process."""
    for number in range(MAX_WORKERS):
        directory = parent / str(number)
        directory.mkdir(exist_ok=True, mode=0o700)
        lock = _lock(directory)
        if lock is not None:
            return directory, lock
    raise StateUnavailable(f"{MAX_WORKERS} workers use directories under {parent}; stop some")


def _lock(directory: Path) -> BaseFileLock | None:
    # A soft lock is a file that would remain after a SIGKILL; the system releases other locks.
    lock = FileLock(directory / "lock", blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _remove_older(parent: Path) -> None:
    for log in parent.parent.iterdir():
        if log != parent:
            for directory in log.iterdir():
                lock = _lock(directory)
                if lock is not None:
                    try:
                        shutil.rmtree(directory)
                    finally:
                        lock.release()
            with suppress(OSError):  # one is still held
                log.rmdir()
