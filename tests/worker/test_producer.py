"""What was cut and not published is published by nobody else in this process, and no batch of it is done."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import InvalidTimestampError

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import MAX_RECORD_BYTES, ProducerRecord
from streamer.worker.process import ensure_topics
from streamer.worker.transport import MAX_POLL_RECORDS, MAX_UNDONE_RECORDS, Producer, RecordTooLarge, fitting
from tests.client.publish.publishing import settings_of
from tests.support.layers import EMBEDDED_ALONE, KAFKA_ALONE
from tests.support.online import bootstrap_of
from tests.worker.processor_bench import Bench

# -----------------------------------------------------------------------------
# What was cut and not published is published by nobody else in this process, and no batch of it is done.


def hang_on(bench: Bench, topic: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Writes to this topic hang, which sets the first event, and are refused when the second one is set."""
    write, hangs, refused = bench.broker.write, asyncio.Event(), asyncio.Event()

    async def hanging(records: Iterable[ProducerRecord]) -> None:
        outs = list(records)
        if any(out.topic == topic for out in outs):
            hangs.set()
            await refused.wait()
            raise OSError("refused")
        await write(outs)

    bench.broker.write = hanging  # type: ignore[method-assign]
    return hangs, refused


async def pay(bench: Bench) -> None:
    """What housekeeping and the end of a worker do."""
    async with bench.processor.lock:
        await bench.processor.publish_last(9.0)


async def owing_bench() -> Bench:
    """Owes for a batch that is folded."""
    bench = Bench()
    await bench.handle(bench.batch(0, 40))
    await bench.handle(bench.batch(40, 40))
    assert bench.partition.publish_queue
    bench.broker.writes.clear()
    return bench


async def test_a_publication_that_was_cancelled_leaves_its_batches_undone() -> None:
    bench = await owing_bench()
    write, (hangs, _) = bench.broker.write, hang_on(bench, "run-summaries")
    paying = asyncio.ensure_future(pay(bench))
    await hangs.wait()
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    bench.broker.write = write  # type: ignore[method-assign]
    await pay(bench)
    later = bench.batch(80, 40)
    await bench.handle(later)
    assert bench.partition.publish_queue.runs
    assert "run-summaries" not in set().union(*bench.broker.topics), "nothing is published after it"
    assert (later.done, later.folded) == (False, False)


@pytest.mark.parametrize("topic", ["trials-changelog", "run-summaries", "scored-trials"])
async def test_whoever_waits_for_the_lock_while_a_write_fails_counts_nothing_as_done(topic: str) -> None:
    bench = Bench()
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.handle(batch))
    paying = asyncio.ensure_future(pay(bench))
    await bench.app.until_crashed()
    bench.broker.refuses = None
    await paying
    assert not handling.done()
    handling.cancel()
    written = {out.topic for outs in bench.broker.writes for out in outs}
    assert "run-summaries" not in written
    assert topic == "run-summaries" or written <= {"trials-changelog"}
    assert not batch.done


async def test_a_worker_that_ends_for_a_false_time_names_the_clocks(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    ending = asyncio.ensure_future(bench.processor.give_up(InvalidTimestampError()))
    await bench.app.until_crashed()
    ending.cancel()
    assert "Compare the clocks of this machine and the broker" in caplog.text


async def test_a_recovery_whose_publication_was_cancelled_withdraws_nothing() -> None:
    before = Bench()
    await before.handle(before.batch(0, 40))
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.tables = before.tables
    for kind, table in before.tables.summaries.items():
        bench.processor.encoder._tables.summaries[kind].rows = table.rows
    hangs, _ = hang_on(bench, "run-summaries")
    handling = asyncio.ensure_future(bench.handle(bench.batch(0, 40)))
    await hangs.wait()
    handling.cancel()
    await asyncio.gather(handling, return_exceptions=True)
    async with bench.processor.lock:
        await bench.processor.publish_passed()
    assert not bench.partition.caught_up
    assert [out for outs in bench.broker.writes for out in outs if out.value is None] == []


# -----------------------------------------------------------------------------
# Everything that a worker writes: acknowledged in order, bounded in size, and what others wrote is seen.


Written = list[tuple[str, int, int, Sequence[ProducerRecord]]]


@pytest.fixture
async def settings(embedded_broker: str, namespace: str) -> Settings:
    settings = settings_of(embedded_broker, namespace)
    await ensure_topics(settings)
    return settings


@pytest.fixture
def written() -> Written:
    """What the producer said that the broker has acknowledged."""
    return []


@pytest.fixture
async def producer(settings: Settings, written: Written) -> AsyncIterator[Producer]:
    producer = Producer(settings, lambda: None)
    producer.written = lambda *told: written.append(told)
    await producer.start()
    yield producer
    await producer.stop()


def some(topic: str, count: int, size: int = 1) -> list[ProducerRecord]:
    return [ProducerRecord(topic, 0, b"%d" % number, b"v" * size) for number in range(count)]


async def test_records_beyond_one_batch_are_written_in_order_and_told_with_their_offsets(
    settings: Settings, producer: Producer, written: Written
) -> None:
    topic = Names(settings.namespace).scored_trials
    records = some(topic, 40, 100_000)
    await producer.write(records)
    assert [record for *_, told in sorted(written, key=lambda one: one[2]) for record in told] == records
    assert len(written) > 1
    assert producer.written_to(topic, 0) == 40
    result = await asyncio.to_thread(lambda: list(read_topic(settings, topic)))
    assert [record.key for record in result] == [record.key for record in records]


async def test_what_others_write_among_ours_is_found_once(settings: Settings, producer: Producer) -> None:
    topic = Names(settings.namespace).run_summaries
    producer.note_ends({(topic, 0): 0})
    await producer.write(some(topic, 2))
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as other:
        await other.send_and_wait(topic, b"foreign", partition=0)
    await producer.write(some(topic, 1))
    assert (producer.written_to(topic, 0), producer.answered_to(topic, 0)) == (4, 2)
    assert producer.take_foreign_ranges(topic, 0, 4) == [(2, 3)]
    assert producer.answered_to(topic, 0) == 4
    assert producer.take_foreign_ranges(topic, 0, 4) == []
    assert producer.take_foreign_ranges(topic, 0, 6) == [(4, 6)]


async def test_every_write_asks_first_whether_the_worker_may_go_on(settings: Settings) -> None:
    def stopped() -> None:
        raise RuntimeError("a zombie")

    producer = Producer(settings, stopped)
    producer.written = lambda *_: None
    await producer.start()
    topic = Names(settings.namespace).scored_trials
    with pytest.raises(RuntimeError, match="a zombie"):
        await producer.write(some(topic, 1))
    await producer.stop()
    assert await asyncio.to_thread(lambda: list(read_topic(settings, topic))) == []


def test_a_record_that_fits_no_message_is_named_with_its_size() -> None:
    most = MAX_RECORD_BYTES
    fits = ProducerRecord("t", 0, b"k", b"v" * (most - 1))
    assert fitting([fits]) == [fits]
    with pytest.raises(RecordTooLarge, match=f"a record for t has {most + 1:,} bytes, at most {most:,}"):
        fitting([fits, fits._replace(key=b"kk")])


# -----------------------------------------------------------------------------
# The order in which a partition publishes what it has recovered, and what a failure leaves to be done.


@pytest.mark.parametrize("other_basis", [False, True])
async def test_after_a_recovery_scored_trials_come_last_unless_from_another_basis(other_basis: bool) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.partition.pending_checkpoint = b"{}" if other_basis else None
    batch = bench.batch(0, 40)
    reconciled: list[int] = []

    async def reconcile(changes: Iterable[Any]) -> None:
        assert list(changes)
        reconciled.append(len(bench.broker.topics))

    bench.sink.reconcile = reconcile  # type: ignore[method-assign]
    await bench.handle(batch)
    scored = [n for n, topics in enumerate(bench.broker.topics) if "scored-trials" in topics]
    summaries = [n for n, topics in enumerate(bench.broker.topics) if "run-summaries" in topics]
    assert scored
    assert bench.broker.topics[0] == {"trials-changelog"}
    if other_basis:
        assert scored[-1] < summaries[0] < reconciled[0]
    else:
        assert summaries[-1] < reconciled[0] <= scored[0]
    assert batch.done


@pytest.mark.parametrize("topic", ["run-summaries", "scored-trials"])
async def test_who_waits_while_what_was_recovered_cannot_be_published_counts_nothing_done(topic: str) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    batch, (hangs, refused) = bench.batch(0, 40), hang_on(bench, topic)
    handling = asyncio.ensure_future(bench.handle(batch))
    await hangs.wait()

    async def pays() -> None:
        async with bench.processor.lock:
            await bench.processor.publish_due()

    paying = asyncio.ensure_future(pays())
    await asyncio.sleep(0)
    refused.set()
    await paying
    await bench.app.until_crashed()
    handling.cancel()
    assert not batch.done


# -----------------------------------------------------------------------------
# The batch transport alone, on real brokers.


ROOT = Path(__file__).parents[2]


async def create(bootstrap: str, topic: str) -> None:
    """Create the topic with one partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()


def probe(
    bootstrap: str, topic: str, *, embedded: bool, count: int, seconds: float, raise_after: int = 0
) -> Any:
    """What the probe saw."""
    asyncio.run(create(bootstrap, topic))
    arguments = [bootstrap, topic, str(int(embedded)), str(count), str(seconds), str(raise_after)]
    command = [sys.executable, "-m", "tests.worker.transport_probe", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[0])


@pytest.mark.parametrize("engine", [*EMBEDDED_ALONE, *KAFKA_ALONE])
def test_the_first_record_travels_alone_then_thousands(
    request: pytest.FixtureRequest, engine: str, namespace: str
) -> None:
    """All are committed, and never too many are there at once."""
    bootstrap, count = bootstrap_of(request, engine), 60_000
    seen = probe(bootstrap, namespace, embedded=engine == "embedded", count=count, seconds=0.05)
    assert (seen["sizes"][0], sum(seen["sizes"]), seen["committed"]) == (1, count, count)
    assert max(seen["sizes"]) >= 1_000
    assert seen["peak"] <= MAX_UNDONE_RECORDS + MAX_POLL_RECORDS


def test_a_batch_that_raised_is_not_committed(embedded_broker: str, namespace: str) -> None:
    seen = probe(embedded_broker, namespace, embedded=True, count=3_000, seconds=0.0, raise_after=1)
    assert (seen["sizes"], seen["committed"]) == ([1], 1)
