"""Records that others wrote into the workers' topics: each is named and left out, none ends a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.prices import PriceTable
from streamer.folding.run import page_key
from streamer.schemas.base import SummaryKind
from streamer.schemas.wire import Quarantine
from streamer.settings import Settings
from streamer.storage import log as storage_log
from streamer.storage.kafka import Names
from streamer.storage.log import CONFIGURATION_KEY, EPOCH_KEY, LOG_KEY, quarantine_key, repair_key
from streamer.worker import recovery
from streamer.worker.partition import Checkpoint, Partition, checkpoint_key, is_page
from streamer.worker.recovery import Fencing, LogPositions, PartitionRecovery
from streamer.worker.tables import NoRow, Tables, refuse_page, refuse_summary
from streamer.worker.transport import PAGES_PER_TURN
from tests.support.examples import examples
from tests.support.packed import a_batch_at, send_batches
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import KINDS, Deployment, folded, trial_events
from tests.worker.processor_bench import Bench

NAMES = Names()
TOPICS = [NAMES.trials_changelog, *KINDS]
HUGE = b"1" + b"0" * 400


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test finds records that the log has not named."""
    monkeypatch.setattr(storage_log, "_said", set())


def a_record(topic: str, offset: int, key: bytes | None, value: bytes | None) -> Any:
    return SimpleNamespace(topic=topic, partition=0, offset=offset, key=key, value=value, headers=())


def read_into(tables: Tables, topic: str, records: Iterable[Any]) -> None:
    """Let the table of this topic read its changelog, as Faust does."""
    [table] = [table for table in tables.all() if table.topic == topic]
    events = [SimpleNamespace(message=record) for record in records]
    table.rows.apply_changelog_batch(events, None, None)


COVERED, SET_APART = checkpoint_key(0).encode(), quarantine_key("run").encode()
NO_CHECKPOINTS = [b"no JSON", b'{"complete_from":' + HUGE + b"}", b'{"lost":[[1]]}']
NO_QUARANTINES = [b"", b"null", b'{"reason":"r","at":"7","deleted_to":null}']
NO_PAGES = [
    *[(key, b"{}") for key in (None, b"", b"\xff\xfe/w/1", b"run", b"run/w/x")],
    (b"run/w", None),
    *[(COVERED, value) for value in NO_CHECKPOINTS],
    *[(SET_APART, value) for value in NO_QUARANTINES],
]


def test_a_checkpoint_that_says_nothing_leaves_the_one_before_it() -> None:
    tables, topic = Bench().tables, NAMES.trials_changelog
    known = Checkpoint(complete_from=5).encoded()
    read_into(tables, topic, [a_record(topic, 0, COVERED, known), a_record(topic, 1, COVERED, b"?")])
    assert tables.trials.get(checkpoint_key(0)) == known


SUMMARY = orjson.dumps({"epoch": 1, "state_version": 3, "digest": "d"})
NO_SUMMARIES: list[tuple[SummaryKind, bytes | None, bytes | None]] = [
    *[("run", key, SUMMARY) for key in (None, b"\xff", b"r|a:m", b"a/b")],
    *[("agent_model", key, SUMMARY) for key in (b"r", b"r|a")],
    ("tier", b"r", None),
    ("comparison", b"", SUMMARY),
]


GOOD_ROWS: dict[SummaryKind | None, tuple[bytes, bytes]] = {
    None: (b"run/w/1", b"page"),
    "run": (b"run", SUMMARY),
    "agent_model": (b"run|a:m", SUMMARY),
    "tier": (b"run|T", SUMMARY),
    "comparison": (b"run", SUMMARY),
}
"""Of each table of summaries, and of the table of pages."""


@pytest.mark.parametrize(("kind", "key", "value"), [*((None, *row) for row in NO_PAGES), *NO_SUMMARIES])
def test_what_is_no_row_of_a_table_is_left_out_and_named_once(
    kind: SummaryKind | None, key: bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    tables = Bench().tables
    table = tables.summaries[kind] if kind else tables.trials
    good, content = GOOD_ROWS[kind]
    rows = [a_record(table.topic, offset, good, content) for offset in (0, 2)]
    for _ in range(2):
        read_into(tables, table.topic, [rows[0], a_record(table.topic, 1, key, value), rows[1]])
    assert dict(table.of_partition(0)) == {good.decode(): content}
    assert table.rows.persisted_offset(TP(table.topic, 0)) == 2
    [line] = caplog.messages
    assert line.startswith(f"Topic {table.topic}: The record at offset 1 of partition 0 has ")


VALUES_OF_NO_SUMMARY = [b"", b"\xff", b"null", b"[]", b"{}", SUMMARY.replace(b"3", HUGE), b'{"x":' * 5_000]


@pytest.mark.parametrize("value", VALUES_OF_NO_SUMMARY)
def test_a_value_that_is_no_summary_takes_the_row_away_so_that_it_is_published_again(value: bytes) -> None:
    tables, topic = Bench().tables, NAMES.run_summaries
    read_into(tables, topic, [a_record(topic, 0, b"r", SUMMARY)])
    assert tables.summaries["run"].get("r") == SUMMARY
    read_into(tables, topic, [a_record(topic, 1, b"r", value)])
    assert tables.summaries["run"].get("r") is None


def test_rows_of_ours_are_rows() -> None:
    for key, value in [
        ("a%2Fb/w.1/0", b"any page"),
        (checkpoint_key(3), Checkpoint(1, "b", ((3, 4),), 9).encoded()),
        (checkpoint_key(3), Checkpoint().encoded()),
        (checkpoint_key(3), b'{"complete_from":7}'),
        (quarantine_key("a/b"), Quarantine("r", -1).value()),
        (quarantine_key("a/b"), Quarantine("r", 7).deleted(2**60).value()),
        (repair_key("a/b"), b"request"),
        ("/of a later version/x", b"?"),
    ]:
        refuse_page(key, value)
        refuse_page(key, None)
    kinds: list[tuple[SummaryKind, str]] = [("run", "a%2Fb"), ("tier", "r|T"), ("tier", "r|T|a:m")]
    for kind, name in [*kinds, ("comparison", "r"), ("agent_model", "r|a%3Ab:m")]:
        refuse_summary(kind, name, SUMMARY)
    with pytest.raises(NoRow, match="a page has RUN/WRITER/NUMBER"):
        refuse_page("run" * 1_000, b"")


def test_what_others_write_beside_a_running_worker_is_left_out_too(caplog: pytest.LogCaptureFixture) -> None:
    written = [a_record("run-summaries", 3, b"\xff", b"x"), a_record("run-summaries", 4, None, b"x")]
    assert recovery._by_key([*written, a_record("run-summaries", 5, b"r", b"x")]) == {"r": b"x"}
    assert len(caplog.messages) == 2


def an_app_of_one() -> Any:
    """A worker's app of one partition, all of whose changelogs are read."""
    consumer = Mock(refolded=set[Any]())
    return Mock(rebalances=1, event_consumer=consumer, assigned_partitions=lambda _: [0], changelog_ends=dict)


def fencing_of(bench: Bench) -> Fencing:
    broker: Any = bench.broker
    return Fencing(an_app_of_one(), Settings(partitions=1), bench.tables, bench.processor, broker)


def a_recovery(bench: Bench, meta: list[Any], patch: pytest.MonkeyPatch, end: int = 100) -> PartitionRecovery:
    """The recovery of one partition by a worker that reads these records of `streamer-meta`.

    `end` is the offset after the last event.
    """
    broker: Any = bench.broker
    broker.note_ends = lambda _ends: None
    positions = {0: LogPositions(0, 0, end, 0, 100, committed_by_others=False)}
    patch.setattr(recovery, "read_positions", AsyncMock(return_value=positions))
    return PartitionRecovery(
        an_app_of_one(),
        Settings(partitions=1),
        tables=bench.tables,
        processor=bench.processor,
        producer=broker,
        prices=PriceTable.default(),
        identity=Mock(settle=AsyncMock(return_value=meta)),
        check_topics=AsyncMock(),
        check_configuration=storage_log.current_configuration,
        writer="w",
        on_ready=lambda _numbers: None,
    )


def taken_over(bench: Bench, meta: list[Any], monkeypatch: pytest.MonkeyPatch, end: int = 100) -> Partition:
    """The partition, as a worker has it after its recovery; see `a_recovery`."""
    work, taken = a_recovery(bench, meta, monkeypatch, end), dict[int, Partition]()
    work._rebalance = work.app.rebalances
    monkeypatch.setattr(bench.processor, "own", taken.update)
    asyncio.run(work._rebuild())
    [partition] = taken.values()
    return partition


def test_a_false_epoch_is_none(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    values = [b'{"epoch":3}', b"no JSON", b"7", b'{"epoch":"9"}', b'{"epoch":0}', b'{"epoch":' + HUGE + b"}"]
    meta = [a_record("streamer-meta", offset, EPOCH_KEY, value) for offset, value in enumerate(values)]
    assert taken_over(Bench(), meta, monkeypatch).epoch == 3
    assert [line.partition(" is not ")[0] for line in caplog.messages] == [
        f"Topic streamer-meta: The record at offset {offset} of partition 0" for offset in range(1, 6)
    ]


@pytest.mark.parametrize(("end", "epoch"), [(40, 1), (39, 2)])
def test_a_log_shorter_than_its_pages_is_new(end: int, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    asyncio.run(bench.handle(bench.batch(0, 40)))
    partition = taken_over(bench, [], monkeypatch, end)
    assert partition.epoch == epoch
    runs = map(partition.pipeline.run, partition.pipeline.runs())
    assert {change.epoch for run in runs for change in run.summaries()} == {epoch}


def test_a_name_that_cannot_be_one_is_none(caplog: pytest.LogCaptureFixture) -> None:
    values = [b"ab12", b"../../elsewhere", b"\xff", b"x" * 65]
    readers = {LOG_KEY: storage_log.current_log, CONFIGURATION_KEY: storage_log.current_configuration}
    for key, read in readers.items():
        records = [a_record(key.decode(), offset, key, value) for offset, value in enumerate(values)]
        assert read(records) == "ab12"
    assert len(caplog.messages) == 6


anything = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.sampled_from([b"", b"null", b"{}", b"[]", b"0", HUGE, b"NaN", b'"\xff"', b'{"v":' + HUGE + b"}"]),
    st.sampled_from([b'{"v":3}', b'{"v":null}', b'{"v":9999}', b'{"v":"3"}', b"[" * 2_000]),
    st.builds(
        lambda version, number, other: (
            b'{"v":%d,"as_of":%d,"at":%d,"slots":[],"epoch":%d,"state_version":%d}'
            % (version, number, other, number, other)
        ),
        st.sampled_from([1, 2, 3, 2_000, 2**64]),
        st.sampled_from([-1, 0, 7, 2**53 + 1, 2**63, 2**70, -(2**63)]),
        st.sampled_from([0, 2**53, 2**70]),
    ),
)
keys = st.one_of(
    st.none(),
    st.binary(max_size=6),
    st.sampled_from([b"", b"r", b"r/w/1", b"r/w/0", b"/w/1", b"r|a:m", b"r|T", b"|", b"//", b"%/%/1"]),
    st.sampled_from([b"r/w/" + HUGE, b"/covered/0", b"/covered/", b"/repair/", b"/repair/r"]),
    st.sampled_from([b"/quarantined/r", b"/quarantined/", EPOCH_KEY, LOG_KEY, CONFIGURATION_KEY]),
    st.sampled_from([b"r||t|1|a|m||", b"r||t|x|a|m||"]),
)
topics = st.sampled_from([*TOPICS, NAMES.streamer_meta])


@examples(1_000)
@given(st.lists(st.tuples(topics, keys, anything), max_size=12))
def test_no_record_in_its_topics_keeps_a_worker_from_taking_over(
    written: list[tuple[str, bytes | None, bytes | None]],
) -> None:
    logging.disable(logging.ERROR)
    records = [a_record(topic, offset, key, value) for offset, (topic, key, value) in enumerate(written)]
    meta = [record for record in records if record.topic == NAMES.streamer_meta]
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            bench = Bench()
            for topic in TOPICS:
                read_into(bench.tables, topic, [record for record in records if record.topic == topic])
            partition = taken_over(bench, meta, monkeypatch)
            storage_log.current_log(meta)
            recovery._note_requests(partition, recovery._by_key(records))
            bench.processor.partitions = {0: partition}
            partition.position = partition.end
            asyncio.run(bench.processor.publish_passed())
            assert partition.caught_up
            asyncio.run(fencing_of(bench)._answer_scored(partition, recovery._by_key(records)))
            assert not partition.abandoned
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("turns", [1, 3])
async def test_a_rebuild_ends_when_a_rebalance_begins(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    bench = Bench()
    await bench.handle(bench.batch(0, 1))
    [page] = [value for key, value in bench.tables.trials.of_partition(0) if is_page(key)]
    pages = [(page_key("run-1", "w", place).encode(), page) for place in range(10 * PAGES_PER_TURN)]
    bench.tables.trials.rows.apply(0, pages, None)
    work, loaded = a_recovery(bench, [], monkeypatch), list[str]()
    monkeypatch.setattr(Pipeline, "load_page", lambda _, key, *__, **___: loaded.append(key))
    given_up, owned = list[Any](), list[Any]()
    monkeypatch.setattr(bench.processor, "give_up", given_up.append)
    monkeypatch.setattr(bench.processor, "own", owned.append)

    async def rebalance() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        work.app.rebalances += 1  # type: ignore[misc]

    beginning = asyncio.ensure_future(rebalance())
    await work.recover()
    await beginning
    assert len(loaded) <= 1 + (turns + 1) * PAGES_PER_TURN
    assert given_up == owned == []


async def test_a_run_whose_scored_trial_was_overwritten_is_published_without_another_event() -> None:
    bench = Bench()
    await bench.handle(bench.batch(0, 1))
    [scored] = [one for write in bench.broker.writes for one in write if one.topic == NAMES.scored_trials]
    await bench.settle()
    bench.broker.writes.clear()

    waiting = asyncio.ensure_future(bench.processor.until_due())
    await asyncio.sleep(0)
    await fencing_of(bench)._answer_scored(bench.partition, {scored.key.decode(): b"{}"})
    async with asyncio.timeout(1):
        await waiting
    await bench.settle()
    assert {NAMES.scored_trials} in bench.broker.topics
    assert not bench.partition.publish_queue


# -----------------------------------------------------------------------------
# The same with a real worker.


def named(worker: WorkerProcess, topic: str, partition: int, offset: int) -> int:
    """How often the worker's log names a record."""
    return worker.output.count(f"Topic {topic}: The record at offset {offset} of partition {partition} ")


FOREIGN = [
    ("trials-changelog", 0, b"\xff\xfe", b"x"),
    ("trials-changelog", 1, b"no page", b"x"),
    ("trials-changelog", 2, checkpoint_key(2).encode(), b"\xff"),
    ("trials-changelog", 3, quarantine_key("run 1").encode(), b"null"),
    ("trials-changelog", 0, b"", b"x"),
    ("run-summaries", 0, b"\xff", b"x"),
    ("agent-model-summaries", 1, b"run 1", b"{}"),
    ("tier-summaries", 2, b"", None),
    ("streamer-meta", 0, EPOCH_KEY, b"no JSON"),
    ("streamer-meta", 0, EPOCH_KEY, b'{"epoch":"three"}'),
    ("streamer-meta", 0, EPOCH_KEY, b'{"epoch":' + HUGE + b"}"),
    ("streamer-meta", 0, CONFIGURATION_KEY, b"\xff\x00"),
]


def test_a_worker_starts_on_topics_with_records_of_others_and_names_each(on_embedded: Deployment) -> None:
    first = on_embedded.begun(trial_events(100))
    first.kill()
    names = on_embedded.names
    for topic, partition, key, value in [*FOREIGN, ("streamer-meta", 0, b"\xff", b"\xff")]:
        on_embedded.send_to(topic, partition, key, value)
    places = {
        (topic, one.partition, one.key, one.value): one.offset
        for topic in {topic for topic, *_ in FOREIGN}
        for one in storage_log.read_topic(on_embedded.settings, names.topic(topic))
    }
    second = on_embedded.worker().start()
    on_embedded.publish(trial_events(200)[100:])
    wait_without_reading(on_embedded, second, 200)
    for topic, partition, key, value in FOREIGN:
        full, offset = names.topic(topic), places[topic, partition, key, value]
        assert named(second, full, partition, offset) == 1, (topic, key)
    on_embedded.send_to("run-summaries", 1, b"\xfd", b"y")
    on_embedded.send_to("trials-changelog", 1, b"\xfe", b"y")
    on_embedded.publish(trial_events(300)[200:])
    wait_without_reading(on_embedded, second, 300)
    told = lambda: [second.output.count(f"Topic {names.topic(topic)}: The record") for topic in seen]  # noqa: E731
    seen = {"run-summaries": 2, "trials-changelog": 6}
    second.wait_until(lambda: told() == list(seen.values()), "what came meanwhile is named, too")
    assert second.stop() == 0


def wait_without_reading(deployment: Deployment, worker: WorkerProcess, events: int) -> None:
    """Wait until Redis equals the fold, and everything is done; the topics hold keys that are no text."""
    expected = folded(deployment.published)
    worker.wait_until(lambda: deployment.in_redis(expected) == expected, "Redis equals the fold")
    worker.wait_until(lambda: deployment.committed() == events, "everything is done")


@pytest.mark.parametrize("junk", [b"no summary", b"{}", None])
@pytest.mark.in_turn(3)
def test_overwritten_summaries_are_back_after_a_restart(junk: bytes | None, on_embedded: Deployment) -> None:
    on_embedded.settled(trial_events(100))
    keys = on_embedded.latest("run-summaries").keys()
    for key in keys:
        place = on_embedded.place(orjson.dumps({"run_id": key}))
        on_embedded.send_to("run-summaries", place, key.encode(), junk)
    second = on_embedded.worker().start()

    def again() -> bool:
        latest = on_embedded.latest("run-summaries")
        return latest.keys() == keys and junk not in latest.values()

    second.wait_until(again, "all are published again")
    on_embedded.wait_until_equal(second)


def test_an_unreadable_end_of_a_changelog_keeps_no_worker_waiting(on_embedded: Deployment) -> None:
    first = on_embedded.begun(trial_events(100))
    first.kill()
    topic = on_embedded.names.trials_changelog
    for partition in range(on_embedded.partitions):
        false = a_batch_at("none", (1000, 1001, 2))
        send_batches(on_embedded.bootstrap, topic, partition, [(false, 3)])
    second = on_embedded.begun(trial_events(200)[100:])
    assert f"Topic {topic}: The record batch at offsets " in second.output
