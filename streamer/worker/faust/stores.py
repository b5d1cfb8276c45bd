"""Where the tables keep their rows: in memory, or in RocksDB on local disk. Both keep partitions apart.

A store knows up to which offset of the changelog it is complete, partition by partition. The worker's own
writes count only without records of others between them: recovery begins behind that offset, and must not
pass over the others' records. A row enters the store when the changelog has it, never before: a page that
only a local disk knows would make its events look saved.
"""

from __future__ import annotations

import logging
import shutil
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from faust.stores import base, rocksdb
from faust.stores import memory as memory_store
from faust.types import TP
from mode import Service

StoreRow = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""

TRUST_SECONDS = 12 * 60 * 60.0
"""Rows on disk that were not kept current for longer are dropped: tombstones that they miss may be gone."""

STAMP_SECONDS = 60.0


class Rows(base.Store[bytes, bytes]):
    """A store of one table, as `Table` uses it."""

    logger = logging.getLogger("faust.streamer")

    @abstractmethod
    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a partition; none if this worker does not hold it."""

    @abstractmethod
    def row(self, key: bytes) -> bytes | None:
        """Value of a key, None if there is none."""

    @abstractmethod
    def partitions(self) -> list[int]:
        """Partitions held, standby ones included."""

    @abstractmethod
    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        """Write rows.

        Args:
            complete_to: offset up to which the partition is complete then; None: as before.
        """

    @abstractmethod
    def let_go(self, partition: int) -> None:
        """The partition is no longer ours; what a process leaves behind stays."""

    @abstractmethod
    def forget(self, partition: int) -> None:
        """Drop a partition: it is recovered from the beginning of the changelog."""

    def wrote(self, tp: TP, first: int, rows: Sequence[StoreRow]) -> None:
        """The worker's own records, which the changelog has from offset `first` on."""
        if tp.partition not in self.partitions():
            return
        known = self.persisted_offset(tp)
        last = first + len(rows) - 1
        gapless = first == 0 if known is None else known < last and first <= known + 1
        self.apply(tp.partition, rows, last if gapless else None)

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:
        """Rows from the changelog, in its order; Faust calls it, now and then with what is not ours."""
        held, topics = self.partitions(), self.table.changelog_topic.topics
        found: dict[int, tuple[list[StoreRow], int]] = {}
        for event in batch:
            message = event.message
            if message.partition in held and message.topic in topics:
                rows, _ = found.get(message.partition, ([], 0))
                rows.append((message.key, message.value))
                found[message.partition] = rows, message.offset
        for partition, (rows, last) in found.items():
            self.apply(partition, rows, last)

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Rows of standby partitions stay."""


class MemoryRows(Rows, memory_store.Store[bytes, bytes]):
    """Rows in memory, gone with the process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rows: dict[int, dict[bytes, bytes]] = {}
        self._complete_to: dict[int, int] = {}

    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a partition."""
        yield from self._rows.get(partition, {}).items()

    def row(self, key: bytes) -> bytes | None:
        """Value of a key."""
        return next((rows[key] for rows in self._rows.values() if key in rows), None)

    def partitions(self) -> list[int]:
        """Partitions held."""
        return list(self._rows)

    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        """Write rows."""
        held = self._rows.setdefault(partition, {})
        for key, value in rows:
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value
        if complete_to is not None:
            self._complete_to[partition] = complete_to

    def let_go(self, partition: int) -> None:
        """Drop a partition: nothing is left behind."""
        self.forget(partition)

    def forget(self, partition: int) -> None:
        """Drop a partition."""
        self._rows.pop(partition, None)
        self._complete_to.pop(partition, None)

    def persisted_offset(self, tp: TP) -> int | None:
        """Offset up to which the partition is complete."""
        return self._complete_to.get(tp.partition)

    async def on_rebalance(self, assigned: set[TP], *args: Any, **kwargs: Any) -> None:
        """Drop what went to another worker, make room for what came."""
        mine = {tp.partition for tp in assigned if tp.topic in self.table.changelog_topic.topics}
        for partition in self._rows.keys() - mine:
            self.let_go(partition)
        for partition in mine:
            self._rows.setdefault(partition, {})


class RocksRows(rocksdb.Store, Rows):
    """Rows in RocksDB by Faust's driver, one database for each partition, with its offset inside.

    What a SIGKILL leaves behind is a state as of some moment, rows and offset together. A database that
    cannot be read, or was not kept current for `TRUST_SECONDS`, is dropped: the changelog has everything.
    """

    logger = logging.getLogger("faust.streamer")
    stamp_key = b"__streamer\0current__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from rocksdict import WriteBatch  # of the extra `rocksdb`

        super().__init__(*args, **kwargs)
        self._new_batch = WriteBatch

    def rows(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a partition, by key."""
        if partition in self._dbs:
            for key, value in self._dbs[partition].items():
                if key not in (self.offset_key, self.stamp_key):
                    yield key, value

    def row(self, key: bytes) -> bytes | None:
        """Value of a key."""
        found: Iterator[bytes | None] = (db.get(key) for db in self._dbs.values())
        return next((value for value in found if value is not None), None)

    def partitions(self) -> list[int]:
        """Partitions held."""
        return list(self._dbs)

    def apply(self, partition: int, rows: Iterable[StoreRow], complete_to: int | None) -> None:
        """Write rows, and how far they go, in one step."""
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
        """Rows from the changelog."""
        Rows.apply_changelog_batch(self, batch, to_key, to_value)

    def forget(self, partition: int) -> None:
        """Drop a partition, its files too."""
        self.let_go(partition)
        shutil.rmtree(self.partition_path(partition), ignore_errors=True)

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close what went to another worker; its files stay, in case it comes back."""
        for tp in tps:
            if tp.topic in table.changelog_topic.topics:
                self.let_go(tp.partition)

    async def stop(self) -> None:
        """Close everything."""
        for partition in self.partitions():
            self.let_go(partition)

    @Service.task
    async def _keep_current(self) -> None:
        """Say now and then that the rows are current, though nothing is written."""
        while not self.should_stop:
            await self.sleep(STAMP_SECONDS)
            for db in self._dbs.values():
                db.put(self.stamp_key, _now())

    def let_go(self, partition: int) -> None:
        """Close a partition."""
        db = self._dbs.pop(partition, None)
        if db is not None:
            db.put(self.stamp_key, _now())
            db.close()

    def _open_for_partition(self, partition: int) -> Any:
        path = self.partition_path(partition)
        try:
            db = super()._open_for_partition(partition)
            why = self._why_not(db)
        except Exception as error:
            if "lock" in str(error).lower():
                raise  # held by this process still: Faust tries again
            db, why = None, str(error)
        if why:
            self.log.warning("%s is dropped and recovered from the changelog: %s", path, why)
            if db is not None:
                db.close()
            shutil.rmtree(path, ignore_errors=True)
            db = super()._open_for_partition(partition)
        return db

    def _why_not(self, db: Any) -> str:
        """Why the rows of a database are of no use; "" if they are."""
        offset, stamp = db.get(self.offset_key), db.get(self.stamp_key)
        if offset is None:
            return "its recovery was never finished" if next(iter(db.keys()), None) is not None else ""
        age = abs(time.time() - float(stamp or 0))
        return f"last current {age / 3600:.0f} hours ago" if age > TRUST_SECONDS else ""


def _now() -> bytes:
    return b"%d" % time.time()


StoreOf = Callable[[Any, Any], Rows]
"""Makes the store of an app's table."""

ROCKSDB_OPTIONS: Mapping[str, int] = {
    "max_open_files": 256,
    "write_buffer_size": 8 * 1024 * 1024,
    "max_write_buffer_number": 2,
    "target_file_size_base": 32 * 1024 * 1024,
    "block_cache_size": 8 * 1024 * 1024,
}
"""Settings of each database; a worker has one per table and partition. Faust's own would take gigabytes."""


def memory(app: Any, table: Any) -> Rows:
    """A store in memory."""
    return MemoryRows("memory://", app, table)


def rocks(app: Any, table: Any) -> Rows:
    """A store in RocksDB, under the app's data directory."""
    return RocksRows("rocksdb://", app, table, options=dict(ROCKSDB_OPTIONS), driver="rocksdict")


def in_directory(directory: Path | None) -> StoreOf:
    """The stores of a worker: RocksDB if it has a directory for them."""
    return memory if directory is None else rocks
