"""Directories of workers that keep their tables on local disk."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from faust.types import TP

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.process import COMPACTED
from streamer.worker.tables import (
    TRUST_SECONDS,
    PatientRecovery,
    Rows,
    StateTable,
    StateUnavailable,
    Tables,
    locked_directory,
    memory,
    rocks,
)
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events
from tests.worker.processor_bench import Bench, a_table, an_app


def test_workers_that_share_a_data_directory_have_places_of_their_own(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store="rocksdb")
    with locked_directory(settings, "log") as first, locked_directory(settings, "log") as second:
        assert first != second
    with locked_directory(settings, "log") as third:
        assert third == first


def test_what_was_recovered_from_another_log_is_removed(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store="rocksdb")
    with locked_directory(settings, "old") as old:
        (old / "row").touch()
        with locked_directory(settings, "new"):
            assert (old / "row").exists()
    with locked_directory(settings, "new"):
        assert not old.exists()


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(StateUnavailable, match=r"pip install \'trialstream\[rocksdb\]\'"),
        locked_directory(Settings(data_dir=tmp_path), "log"),
    ):
        pass


# -----------------------------------------------------------------------------
# Tables on local disk: a worker does not read again what it has there, nor use what is wrong there.


CHANGELOG = TP("changelog", 3)


@pytest.fixture(params=["memory", "rocksdb"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rows]:
    with a_store(tmp_path, request.param) as store:
        yield store


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where RocksDB keeps partition 3 in these tests."""
    return tmp_path / "v1" / "tables" / "table-3.db"


@contextmanager
def a_store(where: Path, kind: str = "rocksdb") -> Iterator[Rows]:
    app = an_app(Settings(), Names(), where)
    store = a_table(app, "table", "changelog", 8, rocks if kind == "rocksdb" else memory).rows
    store.apply(3, [], None)
    try:
        yield store
    finally:
        store.let_go(3)


def reopened(where: Path) -> dict[bytes, bytes]:
    """What a new process finds."""
    with a_store(where) as store:
        return dict(store.rows(3))


def test_rows_come_and_go_and_partitions_stay_apart(rows: Rows) -> None:
    rows.wrote(CHANGELOG, 0, [(b"a", b"1"), (b"b", b"2")])
    rows.wrote(CHANGELOG, 2, [(b"a", None)])
    rows.wrote(TP("changelog", 4), 0, [(b"c", b"3")])
    assert dict(rows.rows(3)) == {b"b": b"2"}
    assert (rows.row(b"a"), rows.row(b"b"), rows.row(b"c")) == (None, b"2", None)
    assert list(rows.rows(4)) == []
    rows.forget(3)
    assert rows.partitions() == []


def test_a_store_is_complete_only_up_to_where_others_wrote(rows: Rows) -> None:
    rows.wrote(CHANGELOG, 1, [(b"a", b"1")])
    assert rows.persisted_offset(CHANGELOG) is None
    rows.apply(3, [(b"b", b"2")], 7)
    rows.wrote(CHANGELOG, 6, [(b"a", b"1")])
    assert rows.persisted_offset(CHANGELOG) == 7, "recovery has passed this write"
    rows.wrote(CHANGELOG, 8, [(b"c", b"3"), (b"d", b"4")])
    assert rows.persisted_offset(CHANGELOG) == 9
    rows.wrote(CHANGELOG, 11, [(b"e", b"5")])
    assert rows.persisted_offset(CHANGELOG) == 9
    assert rows.row(b"e") == b"5"


def test_rows_without_an_offset_are_dropped(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.apply(3, [(b"a", b"1")], None)
    assert reopened(tmp_path) == {}


def test_rows_are_there_for_the_next_process_unless_they_were_not_kept_current_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_store(tmp_path) as store:
        store.wrote(CHANGELOG, 0, [(b"a", b"1"), (b"b", b"2")])
    with a_store(tmp_path) as store:
        assert dict(store.rows(3)) == {b"a": b"1", b"b": b"2"}
        assert store.persisted_offset(CHANGELOG) == 1
    later = time.time() + TRUST_SECONDS + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert reopened(tmp_path) == {}


def test_tombstones_stay_on_topics_for_longer_than_local_rows_are_trusted() -> None:
    assert float(COMPACTED["delete.retention.ms"]) / 1000 >= 2 * TRUST_SECONDS


ROWS = [(b"%05d" % number, os.urandom(100)) for number in range(2_000)]


def many_rows(where: Path) -> None:
    """Rows of partition 3 in files of several blocks."""
    with a_store(where) as store:
        store.wrote(CHANGELOG, 0, ROWS)
    assert reopened(where) == dict(ROWS)  # RocksDB writes the files when it opens what was only in its log


def spoil(directory: Path, pattern: str = "*.sst", share: float = 0.5) -> None:
    """Write over some bytes of these files, at this share of each."""
    for file in directory.glob(pattern):
        content = bytearray(file.read_bytes())
        at = int(len(content) * share)
        content[at : at + 8] = b"no block"
        file.write_bytes(content)


def take_a_file(directory: Path) -> None:
    next(directory.glob("*.sst")).unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "the block with the offset up to which the rows are complete": partial(spoil, share=0.001),
    "the middle": spoil,
    "the manifest": partial(spoil, pattern="MANIFEST-*"),
    "a file that is gone": take_a_file,
    "the name of the manifest": partial(spoil, pattern="CURRENT", share=0.0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_database_is_set_aside_and_read_again(
    tmp_path: Path, directory: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    many_rows(tmp_path)
    damage(directory)
    with a_store(tmp_path) as store:
        assert dict(store.rows(3)) == {}
        assert store.persisted_offset(CHANGELOG) is None
        store.wrote(CHANGELOG, 0, ROWS)
    aside = directory.with_name("table-3.db.damaged")
    assert (aside / "IDENTITY").is_file()
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"{directory} is damaged (" in line
    assert f"It is moved to {aside}, and its partition is read again from Kafka" in line
    assert reopened(tmp_path) == dict(ROWS)


def test_a_database_damaged_again_replaces_the_one_set_aside(tmp_path: Path, directory: Path) -> None:
    for _ in range(2):
        many_rows(tmp_path)
        spoil(directory)
        assert reopened(tmp_path) == {}
    names = sorted(path.name for path in directory.parent.glob("table-3*"))
    assert names == ["table-3.db", "table-3.db.damaged"]


def test_a_database_damaged_while_it_is_read_is_an_error(tmp_path: Path, directory: Path) -> None:
    many_rows(tmp_path)
    with a_store(tmp_path) as store:
        spoil(directory)
        with pytest.raises(Exception, match="Corruption"):
            dict(store.rows(3))


def test_a_database_that_is_open_is_not_taken_for_a_damaged_one(tmp_path: Path, directory: Path) -> None:
    with a_store(tmp_path), pytest.raises(Exception, match="LOCK"), a_store(tmp_path):
        pass
    assert not directory.with_name("table-3.db.damaged").exists()


@pytest.mark.slow
def test_a_worker_with_damaged_tables_reads_them_from_kafka(on_embedded: Deployment, tmp_path: Path) -> None:
    worker = on_embedded.go_on(on_disk(on_embedded, tmp_path / "state").start(), trial_events(1_000))
    for _ in range(2):
        assert worker.stop() == 0
        spoil(tmp_path / "state", "state/*/*/0/**/trials-*.db/*.sst")
        on_embedded.go_on(worker.start(), trial_events(100, seed=2))
    assert "is damaged (Corruption" in worker.output
    assert worker.stop() == 0


def on_disk(deployment: Deployment, where: Path) -> WorkerProcess:
    return deployment.worker(environment={"STREAMER_STORE": "rocksdb", "STREAMER_DATA_DIR": str(where)})


def read_at_start(worker: WorkerProcess) -> int:
    """How many changelog records the worker read when it started last."""
    return int(re.findall(r"recovery: (\d+) records of the changelogs to read", worker.output)[-1])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_worker_killed_in_the_middle_goes_on_from_local_rows(on_both: Deployment, tmp_path: Path) -> None:
    worker = on_disk(on_both, tmp_path / "state").start()
    on_both.publish(trial_events(4_000))
    worker.wait_until(lambda: on_both.latest("run-summaries"), "something is published")
    worker.kill()
    on_both.publish(trial_events(500, seed=2))
    on_both.wait_until_equal(worker.start())
    assert worker.stop() == 0
    on_both.publish(trial_events(500, seed=3))
    worker.start()
    assert read_at_start(worker) < len(on_both.records("trials-changelog"))
    on_both.wait_until_equal(worker)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_worker_need_not_wait_until_it_is_given_up(on_kafka: Deployment, tmp_path: Path) -> None:
    on_kafka.session = 250.0
    worker = on_kafka.go_on(on_disk(on_kafka, tmp_path / "state").start(), trial_events(300))
    worker.kill()
    on_kafka.publish(trial_events(300, seed=2))
    on_kafka.wait_until_equal(worker.start())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_lost_or_old_local_rows_are_read_from_the_changelog(on_kafka: Deployment, tmp_path: Path) -> None:
    where, copy = tmp_path / "state", tmp_path / "copy"
    worker = on_kafka.go_on(on_disk(on_kafka, where).start(), trial_events(600))
    assert worker.stop() == 0
    shutil.copytree(where, copy)
    on_kafka.go_on(worker.start(), trial_events(600, seed=2))
    worker.kill()
    shutil.rmtree(where)
    copy.rename(where)
    worker.start()
    assert read_at_start(worker) > 0
    on_kafka.go_on(worker, trial_events(100, seed=3))
    worker.kill()
    shutil.rmtree(where)
    on_kafka.go_on(worker.start(), trial_events(100, seed=4))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_partition_that_comes_back_lacks_what_was_deleted(on_kafka: Deployment, tmp_path: Path) -> None:
    first = on_kafka.go_on(on_disk(on_kafka, tmp_path / "first").start(), trial_events(600))
    assert first.stop() == 0
    second = on_disk(on_kafka, tmp_path / "second").start()
    on_kafka.publish([b'{"type": "run_deleted", "run_id": "run 1", "revision": 9}'])
    on_kafka.go_on(second, trial_events(600, seed=2))
    tombstones = [record for record in on_kafka.records("trials-changelog") if record.value is None]
    assert tombstones
    assert second.stop() == 0
    on_kafka.go_on(first.start(), trial_events(100, seed=3))
    assert on_kafka.redis_keys("run 1") == {"versions"}
    assert first.stop() == 0
    assert page_keys(tmp_path / "first").isdisjoint(record.key for record in tombstones)


@pytest.mark.slow
def test_pages_only_a_local_disk_has_are_written_for_others(on_kafka: Deployment, tmp_path: Path) -> None:
    """A local disk still has what a changelog has lost. It must not stay there alone."""
    first, second = on_disk(on_kafka, tmp_path / "data"), on_kafka.worker()
    on_kafka.go_on(first.start(), trial_events(400))
    first.kill()
    on_kafka.configure("trials-changelog", cleanup_policy="delete")
    on_kafka.delete_records("trials-changelog", dict.fromkeys(range(on_kafka.partitions), -1))
    on_kafka.configure("trials-changelog", cleanup_policy="compact")
    on_kafka.go_on(first.start(), trial_events(10, seed=2))
    first.kill()
    on_kafka.go_on(second.start(), trial_events(10, seed=3))


def page_keys(where: Path) -> set[bytes]:
    (tables,) = where.glob("state/*/*/0")
    store = a_table(an_app(Settings(), Names(), tables), "trials", "changelog", 4, rocks).rows
    for partition in range(4):
        store.apply(partition, [], None)
    result = {key for partition in range(4) for key, _ in store.rows(partition)}
    for partition in range(4):
        store.let_go(partition)
    return result


@pytest.mark.parametrize(("rebalances", "generation"), [(2, 7), (1, 8)], ids=["revoked", "assigned again"])
async def test_a_recovery_that_was_overtaken_rebuilds_nothing(rebalances: int, generation: int) -> None:
    app: Any = SimpleNamespace(
        rebalancing_count=rebalances,
        consumer_generation_id=generation,
        conf=SimpleNamespace(stream_recovery_delay=0.0),
    )
    half_read = AsyncMock()
    recovery = PatientRecovery(app, {"half": half_read})  # type: ignore[arg-type]
    recovery._rebalance = 1
    await recovery.on_recovery_completed(7)
    half_read.on_recovery_completed.assert_not_called()
    assert not recovery.completed.is_set()


# -----------------------------------------------------------------------------
# The worker's tables: a value counts as published at once, and stands once it is acknowledged.


@pytest.fixture
def tables() -> Tables:
    return Bench().tables


@pytest.fixture
def runs(tables: Tables) -> StateTable:
    return tables.summaries["run"]


def test_a_value_stands_in_the_table_when_it_is_acknowledged(tables: Tables, runs: StateTable) -> None:
    record = runs.publish(0, "r1", b"one")
    assert (runs.published("r1"), runs.get("r1")) == (b"one", None)
    tables.written(record.topic, 0, 0, [record])
    assert (runs.published("r1"), runs.get("r1")) == (b"one", b"one")
    assert list(runs.of_partition(0)) == [("r1", b"one")]


def test_an_older_acknowledgement_leaves_the_newer_value_published(tables: Tables, runs: StateTable) -> None:
    old = runs.publish(0, "r1", b"old")
    runs.publish(0, "r1", b"new")
    tables.written(old.topic, 0, 0, [old])
    assert (runs.published("r1"), runs.get("r1")) == (b"new", b"old")


def test_what_was_not_acknowledged_can_be_taken_back(tables: Tables, runs: StateTable) -> None:
    first = runs.publish(0, "r1", b"one")
    tables.written(first.topic, 0, 0, [first])
    runs.publish(0, "r1", None)
    runs.publish(0, "r2", b"two")
    runs.take_back("r1".__eq__)
    assert (runs.published("r1"), runs.published("r2")) == (b"one", b"two")


def test_records_of_other_topics_change_no_table(tables: Tables, runs: StateTable) -> None:
    record = runs.put(0, "r1", b"one")
    tables.written("another", 0, 0, [record])
    assert runs.get("r1") is None
    assert tables.summary_rows([record, record._replace(topic="another")]) == {("run", "r1"): None}
