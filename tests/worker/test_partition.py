"""Checkpoints are written when something in them has changed, and wait until the pages are whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.folding.slots import SummaryChange
from streamer.schemas.wire import Record
from streamer.storage.kafka import Names
from streamer.worker.partition import (
    Checkpoint,
    Partition,
    PublishQueue,
    PublishRate,
    RecordEncoder,
    checkpoint_key,
)
from streamer.worker.publisher import CheckpointWriter
from streamer.worker.transport import FetchedBatch
from tests.support.builders import a_run_change, an_agent_model_change
from tests.support.events import a_start, a_trial
from tests.worker.deployment import folded, trial_events
from tests.worker.processor_bench import Bench, Broker


class Producing:
    """Takes writes, and says how far the scored trials were published."""

    def __init__(self) -> None:
        self.written: list[Checkpoint] = []
        self.scored_end = 0

    async def write(self, records: list[Any]) -> None:
        assert [record.key for record in records] == [checkpoint_key(0).encode()]
        self.written += [Checkpoint.decoded(record.value) for record in records]

    def answered_to(self, topic: str, partition: int) -> int:
        return self.scored_end


class Given:
    """A writer of checkpoints, for a partition whose log begins at 10."""

    def __init__(self) -> None:
        self.bench, self.producer, self.asked = Bench(), Producing(), 0
        self.bench.broker = self.producer  # type: ignore[assignment]
        self.partition: Partition = self.bench.partition
        self.partition.checkpoint = Checkpoint(complete_from=0)
        self.writer = CheckpointWriter(
            self.bench.tables,
            self.producer,
            "scored-trials",
            self._log_start,  # type: ignore[arg-type]
        )

    async def _log_start(self, _: int) -> int:
        self.asked += 1
        return 10


@pytest.fixture
def given() -> Given:
    return Given()


async def test_events_that_were_deleted_before_they_were_folded_are_noted(given: Given) -> None:
    await given.writer.note_deleted(given.partition, 4, 12)
    assert [checkpoint.lost for checkpoint in given.producer.written] == [((4, 10),)]


@pytest.mark.parametrize(("expected", "offset", "asked"), [(4, 4, 0), (10, 12, 1)])
async def test_a_gap_behind_the_start_of_the_log_loses_nothing(
    given: Given, expected: int, offset: int, asked: int
) -> None:
    """The broker is asked at a gap only: a transaction's marker is one, too."""
    await given.writer.note_deleted(given.partition, expected, offset)
    assert (given.producer.written, given.asked) == ([], asked)


async def test_the_end_of_the_scored_trials_is_written_when_it_has_moved(given: Given) -> None:
    await given.writer.note_scored(given.partition)
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    await given.writer.note_scored(given.partition)
    assert [checkpoint.scored_to for checkpoint in given.producer.written] == [7]


async def test_while_a_partition_catches_up_its_checkpoint_waits(given: Given) -> None:
    given.partition.caught_up = False
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    assert given.producer.written == []
    assert not given.writer.can_note_scored(given.partition)
    await given.writer.write_pending(given.partition)
    await given.writer.write_pending(given.partition)
    assert [checkpoint.scored_to for checkpoint in given.producer.written] == [7]


async def test_pages_that_are_not_complete_have_no_checkpoint(given: Given) -> None:
    given.partition.checkpoint = Checkpoint()
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    assert (given.producer.written, given.partition.pending_checkpoint) == ([], None)


# -----------------------------------------------------------------------------
# The processor's order of writes, with the broker replaced by a list.


@pytest.fixture
def bench() -> Bench:
    """A partition that has caught up."""
    return Bench()


async def test_pages_are_acknowledged_before_anything_else_is_written(bench: Bench) -> None:
    batch = bench.batch(0, 40)
    await bench.handle(batch)
    assert bench.broker.topics[0] == {"trials-changelog"}
    assert {
        "run-summaries",
        "tier-summaries",
        "agent-model-summaries",
        "scored-trials",
    } <= bench.broker.topics[1]
    assert bench.sink.updates
    assert batch.done


@pytest.mark.parametrize("topic", ["trials-changelog", "run-summaries", "scored-trials"])
async def test_a_batch_is_not_done_when_a_write_fails(bench: Bench, topic: str) -> None:
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.handle(batch))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    assert not batch.done
    assert not handling.done()
    handling.cancel()
    assert all("run-summaries" not in topics for topics in bench.broker.topics)


async def test_nothing_is_published_before_the_position_passes_what_was_recovered() -> None:
    bench = Bench(catch_up_to=80, caught_up=False)
    await bench.handle(bench.batch(0, 40))
    assert bench.broker.topics == [{"trials-changelog"}]
    assert not bench.sink.updates
    assert not bench.sink.reconciled
    await bench.handle(bench.batch(40, 40))
    assert any("run-summaries" in topics for topics in bench.broker.topics)
    assert bench.sink.reconciled
    assert bench.partition.caught_up


async def test_after_a_recovery_only_what_differs_from_the_tables_is_published_again(bench: Bench) -> None:
    await bench.handle(bench.batch(0, 40))
    bench.partition.caught_up = False
    bench.broker.writes.clear()
    rebuilt = Pipeline(writer="v")
    assert list(bench.processor.run_ids()) == []
    rebuilt.fold(Record(value, offset) for offset, value in enumerate(trial_events(40)))
    bench.partition.pipeline = rebuilt
    await bench.processor.publish_passed()
    assert bench.broker.topics == []
    assert bench.partition.caught_up


async def test_the_start_of_the_log_is_asked_for_at_a_gap_only(bench: Bench) -> None:
    await bench.handle(*(bench.batch(first, 10) for first in (0, 10, 20)))
    assert bench.partition.position == 30
    assert bench.log_start_asked == 0
    await bench.handle(bench.batch(35, 5))
    assert bench.log_start_asked == 1


async def test_batches_that_are_there_at_once_share_their_writes(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    first, second, third = bench.batch(0, 40), bench.batch(40, 40), bench.batch(0, 40)
    third.partition = 1
    await bench.handle(first, second, third)
    assert [batch.done for batch in (first, second, third)] == [True] * 3
    assert (bench.partition.position, other.position) == (80, 40)
    pages, published = (outs for outs in bench.broker.writes if outs)
    assert {(out.topic, out.partition) for out in pages} == {("trials-changelog", n) for n in (0, 1)}
    assert len({(out.partition, out.key) for out in pages}) == len(pages)
    assert {out.partition for out in published} == {0, 1}
    quarantined = Bench()
    for batch in (quarantined.batch(0, 40), quarantined.batch(40, 40)):
        await quarantined.handle(batch)
    for one in (bench, quarantined):
        await one.settle()
    assert last_values(bench.broker) == last_values(quarantined.broker)


class Stream:
    """Gives batches as Faust does: some are there, one comes later, and then it ends."""

    def __init__(self, *batches: FetchedBatch) -> None:
        self.queue: asyncio.Queue[FetchedBatch] = asyncio.Queue()
        *there, self.later = batches
        for batch in there:
            self.queue.put_nowait(batch)

    async def __aiter__(self) -> AsyncIterator[FetchedBatch]:
        while not self.queue.empty():
            yield self.queue.get_nowait()
        yield self.later

    @property
    def drained(self) -> bool:
        return self.queue.empty()


async def test_nothing_waits_for_a_batch_that_is_not_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.batches.RECORDS_TOGETHER", 90)
    handled: list[list[int]] = []

    async def note(*batches: FetchedBatch, ownership: int) -> None:
        handled.append([batch.last_offset for batch in batches])

    monkeypatch.setattr(bench, "handle", note)
    await bench.run(Stream(*(bench.batch(at, 40) for at in range(0, 200, 40))))
    assert handled == [[39, 79, 119], [159], [199]]


async def test_batches_from_before_a_rebalance_are_left_to_be_read_again(bench: Bench) -> None:
    old, new = bench.batch(0, 40), bench.batch(40, 40)
    old.partition = 7  # which is somebody else's now
    stream = Stream(old, new)
    taken = stream.queue.empty

    def rebalanced() -> bool:
        if not taken():
            return False
        if bench.processor.ownership == 0:
            bench.processor.own(bench.processor.partitions)
            return False
        return True

    stream.queue.put_nowait(new)
    monkey = pytest.MonkeyPatch()
    monkey.setattr(stream.queue, "empty", rebalanced)
    await bench.run(stream)
    monkey.undo()
    assert not bench.app.crashes
    assert (old.folded, new.done) == (False, True)
    before = bench.partition.position
    await bench.handle(bench.batch(80, 40), ownership=0)
    assert bench.partition.position == before


def last_values(broker: Broker) -> dict[tuple[str, bytes | None], Any]:
    """The last digest of each summary and scored trial of partition 0."""
    values = {
        (out.topic, out.key): out.value
        for outs in broker.writes
        for out in outs
        if out.partition == 0 and out.topic not in ("trials-changelog", "grade-changes")
    }
    return {place: value and orjson.loads(value)["digest"] for place, value in values.items()}


async def test_partitions_with_a_backlog_share_one_publish_rate(bench: Bench) -> None:
    bench.processor.publish_rate = PublishRate(now=lambda: 10.0)
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    bench.behind = True
    first, second, third = bench.batch(0, 40), bench.batch(0, 40), bench.batch(40, 40)
    second.partition = third.partition = 1
    await bench.handle(first)
    assert first.done
    await bench.handle(second)
    assert (second.done, bool(other.publish_queue.runs)) == (False, True)
    assert not bench.processor.is_due()
    bench.behind = False
    fourth = bench.batch(40, 40)
    await bench.handle(fourth)
    assert (second.done, fourth.done, bool(other.publish_queue.runs)) == (True, True, False)
    await bench.handle(third)
    assert third.done


async def test_with_a_backlog_the_latest_summaries_are_published_for_several_batches(bench: Bench) -> None:
    bench.processor.publish_rate = PublishRate(now=lambda: 10.0)
    first, second, last = bench.batch(0, 40), bench.batch(40, 40), bench.batch(80, 40)
    bench.behind = True
    await bench.handle(first)
    assert first.done  # nothing had been published before: the publish rate allowed it
    bench.broker.writes.clear()
    await bench.handle(second)
    assert bench.broker.topics == [{"trials-changelog"}]
    assert (second.folded, second.done) == (True, False)
    bench.behind = False
    await bench.handle(last)
    assert second.done
    assert last.done
    published = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    assert len(published) == len(set(published))


async def test_what_a_backlog_left_in_the_queue_is_published_without_another_batch(bench: Bench) -> None:
    bench.behind = True
    await bench.handle(bench.batch(0, 40))
    queued = bench.batch(40, 40)
    await bench.handle(queued)
    assert not queued.done
    await bench.processor.flush()
    assert queued.done
    await bench.settle()
    assert not bench.partition.publish_queue.runs


async def test_scored_trials_do_not_pile_up_while_summaries_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.batches.MOST_SCORED_WAITING", 50)
    monkeypatch.setattr("streamer.worker.publisher.SCORED_PER_WRITE", 7)
    bench.behind = True
    await bench.handle(bench.batch(0, 40))
    bench.broker.writes.clear()
    queued = [bench.batch(at, 40) for at in range(40, 200, 40)]
    for batch in queued:
        await bench.handle(batch)
        runs = bench.partition.publish_queue.runs
        waiting = sum(bench.partition.pipeline.run(run_id).scored_waiting for run_id in runs)
        assert waiting <= 50
    assert not any(batch.done for batch in queued)
    assert {"scored-trials"} in bench.broker.topics
    assert all("run-summaries" not in topics for topics in bench.broker.topics)
    await bench.processor.flush()
    latest = {
        out.key: out.value for outs in bench.broker.writes for out in outs if out.topic == "scored-trials"
    }
    at_once = Bench()
    await at_once.handle(at_once.batch(0, 200))
    expected = {
        out.key: out.value for outs in at_once.broker.writes for out in outs if out.topic == "scored-trials"
    }
    digests = {key: value and orjson.loads(value)["digest"] for key, value in latest.items()}
    assert (
        digests.items()
        <= {key: value and orjson.loads(value)["digest"] for key, value in expected.items()}.items()
    )


# -----------------------------------------------------------------------------
# With a backlog, the queue is published some runs at a time.


RUNS = 6
"""Of `Bench.batch`; event n belongs to run n modulo 6."""


@pytest.fixture
def bench_of_publish_queue(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two runs are published together, and a publication is due at every tenth of a second."""
    monkeypatch.setattr("streamer.worker.publisher.RUNS_PER_WRITE", 2)
    made = Bench()
    made.processor.publish_rate = PublishRate(now=lambda: made.seconds)
    made.partition.publish_queue = PublishQueue(now=lambda: made.seconds)
    made.behind = True
    return made


def published(bench: Bench) -> list[str]:
    """Runs whose summaries were written since the last call, in order."""
    keys = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    bench.broker.writes.clear()
    return [(key or b"").decode() for key in keys]


def names(*numbers: int) -> list[str]:
    return [f"run {number}" for number in numbers]


async def test_the_runs_that_waited_for_the_longest_time_are_published_first(
    bench_of_publish_queue: Bench,
) -> None:
    first, second = bench_of_publish_queue.batch(0, 4), bench_of_publish_queue.batch(4, 40)
    await bench_of_publish_queue.handle(first)  # of runs 0 to 3
    at_once, left = (
        set(published(bench_of_publish_queue)),
        bench_of_publish_queue.partition.publish_queue.runs,
    )
    assert (len(at_once), at_once | left) == (2, {*names(0, 1, 2, 3)})
    await bench_of_publish_queue.handle(second)  # of all of them
    assert published(bench_of_publish_queue) == []  # not due yet
    bench_of_publish_queue.seconds += 10.0
    await bench_of_publish_queue.processor.flush()
    assert {*published(bench_of_publish_queue)} == left
    assert (first.done, second.done) == (True, False)
    assert bench_of_publish_queue.partition.publish_queue.runs == {*names(4, 5)} | at_once
    for _ in range(2):
        assert not second.done
        bench_of_publish_queue.seconds += 10.0
        await bench_of_publish_queue.processor.flush()
    assert {*published(bench_of_publish_queue)} == {*names(4, 5)} | at_once
    assert second.done
    assert not bench_of_publish_queue.partition.publish_queue


async def test_batches_are_done_though_each_touches_runs_that_wait_already(
    bench_of_publish_queue: Bench,
) -> None:
    batches = [bench_of_publish_queue.batch(at, 12) for at in range(0, 240, 12)]  # each of all six runs
    done = []
    for batch in batches:
        await bench_of_publish_queue.handle(batch)
        bench_of_publish_queue.seconds += 10.0
        done.append(sum(one.done for one in batches))
    assert done[-1] >= len(batches) - 2 * (RUNS // 2)
    assert done == sorted(done)


async def test_without_a_backlog_everything_is_published_at_once(bench_of_publish_queue: Bench) -> None:
    bench_of_publish_queue.behind = False
    batch = bench_of_publish_queue.batch(0, 40)
    await bench_of_publish_queue.handle(batch)
    assert sorted(published(bench_of_publish_queue)) == names(*range(RUNS))
    assert batch.done


async def test_a_backlog_that_forms_meanwhile_ends_a_publication(bench_of_publish_queue: Bench) -> None:
    write = bench_of_publish_queue.broker.write

    async def write_slowly(records: Any) -> None:
        await write(records)
        bench_of_publish_queue.behind = True

    bench_of_publish_queue.behind, bench_of_publish_queue.broker.write = False, write_slowly  # type: ignore[method-assign]
    batch = bench_of_publish_queue.batch(0, 40)
    await bench_of_publish_queue.handle(batch)
    assert len(published(bench_of_publish_queue)) == 2
    assert not batch.done
    await bench_of_publish_queue.processor.flush(seconds=60.0)
    assert len(published(bench_of_publish_queue)) == RUNS - 2
    assert batch.done


async def test_partitions_take_turns(bench_of_publish_queue: Bench) -> None:
    other = bench_of_publish_queue.processor.partitions[1] = Partition(
        1, 1, Pipeline(writer="w"), 0, 0, caught_up=True
    )
    bench_of_publish_queue.behind = False
    theirs = bench_of_publish_queue.batch(0, 40)
    theirs.partition = 1
    bench_of_publish_queue.behind = True
    bench_of_publish_queue.processor.publish_rate.published(took_seconds=1.0)
    await bench_of_publish_queue.handle(bench_of_publish_queue.batch(0, 40), theirs)
    assert (len(other.publish_queue.runs), len(bench_of_publish_queue.partition.publish_queue.runs)) == (
        RUNS,
        RUNS,
    )
    bench_of_publish_queue.seconds += 20.0
    await bench_of_publish_queue.processor.flush()
    assert (len(other.publish_queue.runs), len(bench_of_publish_queue.partition.publish_queue.runs)) == (
        RUNS - 1,
        RUNS - 1,
    )


async def test_what_is_published_in_parts_is_what_is_published_at_once(bench_of_publish_queue: Bench) -> None:
    for at in range(0, 400, 40):
        await bench_of_publish_queue.handle(bench_of_publish_queue.batch(at, 40))
        bench_of_publish_queue.seconds += 3.0
    await bench_of_publish_queue.processor.flush(seconds=60.0)
    told = {
        (out.key or b"").decode(): orjson.loads(out.value)["digest"]
        for outs in bench_of_publish_queue.broker.writes
        for out in outs
        if out.value is not None and out.topic.endswith("-summaries")
    }
    pipeline = Pipeline()
    pipeline.fold(Record(value, offset) for offset, value in enumerate(trial_events(400)))
    expected = [change for run_id in pipeline.runs() for change in pipeline.run(run_id).summaries()]
    assert told == {change.key: change.digest for change in expected}


async def test_runs_that_wait_for_long_are_published_in_half_of_the_time(
    bench_of_publish_queue: Bench,
) -> None:
    await bench_of_publish_queue.handle(bench_of_publish_queue.batch(0, 40))
    bench_of_publish_queue.processor.publish_rate.published(took_seconds=1.0)
    bench_of_publish_queue.seconds += 2.0
    assert not bench_of_publish_queue.processor.is_due()
    bench_of_publish_queue.seconds = 61.0
    bench_of_publish_queue.processor.publish_rate.published(took_seconds=1.0)
    bench_of_publish_queue.seconds += 2.0
    assert bench_of_publish_queue.processor.is_due()


async def test_scored_trials_do_not_pile_up_while_every_turn_publishes_some_runs(
    bench_of_publish_queue: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.batches.MOST_SCORED_WAITING", 20)
    monkeypatch.setattr("streamer.worker.batches.MOST_UNCOUNTED", 10)
    for at in range(0, 400, 40):
        await bench_of_publish_queue.handle(bench_of_publish_queue.batch(at, 40))
        bench_of_publish_queue.seconds += 10.0
        waiting, pipeline = (
            bench_of_publish_queue.partition.publish_queue.runs,
            bench_of_publish_queue.partition.pipeline,
        )
        assert sum(pipeline.run(run_id).scored_waiting for run_id in waiting) <= 20
        assert sum(pipeline.run(run_id).state.counts.waiting for run_id in waiting) <= 10


def batch_of(bench: Bench, at: int, *events: dict[str, Any]) -> FetchedBatch:
    """A batch of these events, from offset `at` on."""
    values = enumerate(map(orjson.dumps, events), at)
    return FetchedBatch("trial-events", 0, [bench.record(offset, value) for offset, value in values])


async def test_starts_alone_publish_once_a_second_and_no_batch_waits_for_them(
    bench_of_publish_queue: Bench,
) -> None:
    bench_of_publish_queue.behind = False
    starts = [a_start(task_id=f"t{number}") for number in range(30)]
    batches = [batch_of(bench_of_publish_queue, at, starts[at]) for at in range(30)]
    for batch in batches:
        await bench_of_publish_queue.handle(batch)
        bench_of_publish_queue.seconds += 0.1
    assert len(published(bench_of_publish_queue)) == 3
    assert all(batch.done for batch in batches)
    await bench_of_publish_queue.handle(batch_of(bench_of_publish_queue, 30, a_trial(task_id="t0")))
    assert published(bench_of_publish_queue) == [
        "run-1"
    ]  # a result is published at once, and the last starts with it
    await bench_of_publish_queue.processor.flush()
    assert published(bench_of_publish_queue) == []
    [summary] = [u for u in bench_of_publish_queue.sink.updates[-1].summaries if u.kind == "run"]
    assert (summary.summary or {})["in_flight"] == 29


async def test_at_the_end_of_a_worker_what_rests_is_published_too(bench_of_publish_queue: Bench) -> None:
    bench_of_publish_queue.behind = False
    for at in (0, 120):
        await bench_of_publish_queue.handle(bench_of_publish_queue.batch(at, 120))
    assert bench_of_publish_queue.partition.publish_queue.runs, "comparisons rest"
    await bench_of_publish_queue.processor.flush(seconds=60.0)
    assert bench_of_publish_queue.partition.publish_queue.empty
    current = {
        change.key: change.digest
        for change in bench_of_publish_queue.current()
        if change.kind == "comparison"
    }
    assert current == folded(trial_events(240))["run-comparisons"]


async def test_after_the_last_publication_a_batch_is_not_done_before_all_that_follows_from_it_is_published(
    bench_of_publish_queue: Bench,
) -> None:
    bench_of_publish_queue.behind = False
    await bench_of_publish_queue.processor.flush(seconds=60.0)
    starts = [batch_of(bench_of_publish_queue, at, a_start(task_id=f"t{at}")) for at in range(240, 243)]
    for batch in (bench_of_publish_queue.batch(0, 120), bench_of_publish_queue.batch(120, 120), *starts[:2]):
        await bench_of_publish_queue.handle(batch)
        assert (batch.done, bench_of_publish_queue.partition.publish_queue.empty) == (True, True)
    bench_of_publish_queue.behind = True
    bench_of_publish_queue.processor.publish_rate.published(took_seconds=1.0)
    await bench_of_publish_queue.handle(starts[2])
    assert (starts[2].done, bench_of_publish_queue.partition.publish_queue.runs) == (False, {"run-1"})
    current = {
        change.key: change.digest
        for change in bench_of_publish_queue.current()
        if change.kind == "comparison"
    }
    assert current.items() >= folded(trial_events(240))["run-comparisons"].items()


# -----------------------------------------------------------------------------
# What has to be published again: what differs from the tables, and what they hold beyond a run.


class GivenOfRecordEncoding:
    """An encoder whose records are acknowledged at once."""

    def __init__(self) -> None:
        self._bench = Bench()
        self.encoder = RecordEncoder(Names(), self._bench.tables)

    async def publish(self, *changes: SummaryChange) -> None:
        await self._bench.broker.write(self.encoder.of_summaries(0, changes))


@pytest.fixture
def given_of_record_encoding() -> GivenOfRecordEncoding:
    return GivenOfRecordEncoding()


async def test_a_summary_differs_by_its_content_and_not_by_when_it_was_touched(
    given_of_record_encoding: GivenOfRecordEncoding,
) -> None:
    change = a_run_change(version=1)
    assert given_of_record_encoding.encoder.differs(change)
    await given_of_record_encoding.publish(change)
    assert not given_of_record_encoding.encoder.differs(a_run_change(version=2))
    assert given_of_record_encoding.encoder.differs(a_run_change(version=1, trials=2))
    assert given_of_record_encoding.encoder.differs(a_run_change(version=1, epoch=2))
    assert given_of_record_encoding.encoder.differs(a_run_change(deleted=True))


async def test_a_tombstone_of_what_was_never_published_says_nothing_new(
    given_of_record_encoding: GivenOfRecordEncoding,
) -> None:
    assert not given_of_record_encoding.encoder.differs(a_run_change(deleted=True))


async def test_groups_that_a_run_has_no_more_get_tombstones_of_their_own_version(
    given_of_record_encoding: GivenOfRecordEncoding,
) -> None:
    await given_of_record_encoding.publish(
        a_run_change(version=3), an_agent_model_change(version=3), an_agent_model_change("other", version=3)
    )
    current = {"r1": [a_run_change(version=4)]}
    [orphan] = given_of_record_encoding.encoder.orphans(0, current, epoch=2)
    assert (orphan.run_id, orphan.kind, orphan.value) == ("r1", "agent_model", None)
    assert (orphan.epoch, orphan.state_version) == (2, 3)


async def test_what_the_tables_hold_of_a_run_reads_back(
    given_of_record_encoding: GivenOfRecordEncoding,
) -> None:
    change = an_agent_model_change("a|b", version=3)
    await given_of_record_encoding.publish(change, a_run_change("other"))
    assert given_of_record_encoding.encoder.stored_of_runs(0, ["a|b", "unknown"]) == {
        "a|b": [change],
        "unknown": [],
    }
