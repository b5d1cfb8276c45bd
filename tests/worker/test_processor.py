"""The processor's order of writes, with the broker replaced by a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.worker.partition import Partition, PublishRate
from streamer.worker.transport import FetchedBatch
from tests.worker.deployment import trial_events
from tests.worker.processor_bench import Bench, Broker


@pytest.fixture
def bench() -> Bench:
    """A partition that has caught up."""
    return Bench()


async def test_pages_are_acknowledged_before_anything_else_is_written(bench: Bench) -> None:
    batch = bench.batch(0, 40)
    await bench.processor.handle(batch)
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
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    assert not batch.done
    assert not handling.done()
    handling.cancel()
    assert all("run-summaries" not in topics for topics in bench.broker.topics)


async def test_nothing_is_published_before_the_position_passes_what_was_recovered() -> None:
    bench = Bench(catch_up_to=80, caught_up=False)
    await bench.processor.handle(bench.batch(0, 40))
    assert bench.broker.topics == [{"trials-changelog"}]
    assert not bench.sink.updates
    assert not bench.sink.reconciled
    await bench.processor.handle(bench.batch(40, 40))
    assert any("run-summaries" in topics for topics in bench.broker.topics)
    assert bench.sink.reconciled
    assert bench.partition.caught_up


async def test_after_a_recovery_only_what_differs_from_the_tables_is_published_again(bench: Bench) -> None:
    await bench.processor.handle(bench.batch(0, 40))
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
    await bench.processor.handle(*(bench.batch(first, 10) for first in (0, 10, 20)))
    assert bench.partition.position == 30
    assert bench.log_start_asked == 0
    await bench.processor.handle(bench.batch(35, 5))
    assert bench.log_start_asked == 1


async def test_batches_that_are_there_at_once_share_their_writes(bench: Bench) -> None:
    other = bench.processor.partitions[1] = Partition(1, 1, Pipeline(writer="w"), 0, 0, caught_up=True)
    first, second, third = bench.batch(0, 40), bench.batch(40, 40), bench.batch(0, 40)
    third.partition = 1
    await bench.processor.handle(first, second, third)
    assert [batch.done for batch in (first, second, third)] == [True] * 3
    assert (bench.partition.position, other.position) == (80, 40)
    pages, published = (outs for outs in bench.broker.writes if outs)
    assert {(out.topic, out.partition) for out in pages} == {("trials-changelog", n) for n in (0, 1)}
    assert len({(out.partition, out.key) for out in pages}) == len(pages)
    assert {out.partition for out in published} == {0, 1}
    apart = Bench()
    for batch in (apart.batch(0, 40), apart.batch(40, 40)):
        await apart.processor.handle(batch)
    for one in (bench, apart):
        await one.settle()
    assert last_values(bench.broker) == last_values(apart.broker)


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
    monkeypatch.setattr("streamer.worker.processor.RECORDS_TOGETHER", 90)
    handled: list[list[int]] = []

    async def note(*batches: FetchedBatch, ownership: int) -> None:
        handled.append([batch.last_offset for batch in batches])

    monkeypatch.setattr(bench.processor, "handle", note)
    await bench.processor.run(Stream(*(bench.batch(at, 40) for at in range(0, 200, 40))))
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
    await bench.processor.run(stream)
    monkey.undo()
    assert not bench.app.crashes
    assert (old.folded, new.done) == (False, True)
    before = bench.partition.position
    await bench.processor.handle(bench.batch(80, 40), ownership=0)
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
    await bench.processor.handle(first)
    assert first.done
    await bench.processor.handle(second)
    assert (second.done, bool(other.publish_queue.runs)) == (False, True)
    assert not bench.processor.is_due()
    bench.behind = False
    fourth = bench.batch(40, 40)
    await bench.processor.handle(fourth)
    assert (second.done, fourth.done, bool(other.publish_queue.runs)) == (True, True, False)
    await bench.processor.handle(third)
    assert third.done


async def test_with_a_backlog_the_latest_summaries_are_published_for_several_batches(bench: Bench) -> None:
    bench.processor.publish_rate = PublishRate(now=lambda: 10.0)
    first, second, last = bench.batch(0, 40), bench.batch(40, 40), bench.batch(80, 40)
    bench.behind = True
    await bench.processor.handle(first)
    assert first.done  # nothing had been published before: the publish rate allowed it
    bench.broker.writes.clear()
    await bench.processor.handle(second)
    assert bench.broker.topics == [{"trials-changelog"}]
    assert (second.folded, second.done) == (True, False)
    bench.behind = False
    await bench.processor.handle(last)
    assert second.done
    assert last.done
    published = [out.key for outs in bench.broker.writes for out in outs if out.topic == "run-summaries"]
    assert len(published) == len(set(published))


async def test_what_a_backlog_left_in_the_queue_is_published_without_another_batch(bench: Bench) -> None:
    bench.behind = True
    await bench.processor.handle(bench.batch(0, 40))
    queued = bench.batch(40, 40)
    await bench.processor.handle(queued)
    assert not queued.done
    await bench.processor.flush()
    assert queued.done
    await bench.settle()
    assert not bench.partition.publish_queue.runs


async def test_scored_trials_do_not_pile_up_while_summaries_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.worker.processor.MOST_SCORED_WAITING", 50)
    monkeypatch.setattr("streamer.worker.publisher.SCORED_PER_WRITE", 7)
    bench.behind = True
    await bench.processor.handle(bench.batch(0, 40))
    bench.broker.writes.clear()
    queued = [bench.batch(at, 40) for at in range(40, 200, 40)]
    for batch in queued:
        await bench.processor.handle(batch)
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
    await at_once.processor.handle(at_once.batch(0, 200))
    wanted = {
        out.key: out.value for outs in at_once.broker.writes for out in outs if out.topic == "scored-trials"
    }
    digests = {key: value and orjson.loads(value)["digest"] for key, value in latest.items()}
    assert (
        digests.items()
        <= {key: value and orjson.loads(value)["digest"] for key, value in wanted.items()}.items()
    )
