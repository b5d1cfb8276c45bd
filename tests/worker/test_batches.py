"""Batches of several partitions folded at once; a record is placed by where it lies, not by its headers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.storage.kafka import MAX_MESSAGE_BYTES, Names, partition_of
from streamer.storage.outbox import ProducerRecord, RecordsRefused
from streamer.worker.agents import Processor, Together
from streamer.worker.partition import FORWARDED, Partition, RecordEncoder, reroute
from streamer.worker.publisher import QuarantineWriter
from streamer.worker.transport import FetchedBatch
from tests.house.repository import ROOT
from tests.worker.deployment import Deployment, trial_events
from tests.worker.mutants import MUTANTS

HEADERS = [(FORWARDED, b"0:0"), ("other", b"kept")]


def test_a_copy_names_its_original_whatever_a_client_wrote() -> None:
    record = Record(b"{}", 7, partition=1, key=b"k", headers=HEADERS)
    [out] = reroute([(record, "run")], 4)
    assert (out.partition, out.key) == (partition_of("run", 4), b"run")
    assert out.headers == [("other", b"kept"), (FORWARDED, b"1:7")]


def a_processor(partitions: int) -> Processor:
    """One that owns all partitions and whose broker, Redis and process are not there: it can fold."""
    edges = ("tables", "producer", "sink", "check_alive", "waiting", "idle", "measures")
    processor = Processor(
        AsyncMock(),
        partitions,
        encoder=RecordEncoder(Names("test"), Mock()),
        checkpoints=AsyncMock(),
        **{edge: Mock() for edge in edges},
    )
    processor.own({number: Partition(number, 1, Pipeline(), 0, 0) for number in range(partitions)})
    return processor


async def test_batches_of_several_partitions_leave_all_their_rejections_and_the_offset_of_each() -> None:
    processor = a_processor(4)
    batches = [
        FetchedBatch("trial-events", number, [Record(b"garbage", 7 + number, partition=number, key=b"k")])
        for number in range(4)
    ]
    changes = await processor.fold(Together(batches, processor.ownership))
    assert [(aside.topic, aside.partition) for aside in changes.asides] == [
        (Names("test").trial_rejections, number) for number in range(4)
    ]
    assert changes.next_offsets == {0: 8, 1: 9, 2: 10, 3: 11}


class SmallBroker:
    """Takes records up to a size, headers included, and refuses the others."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.written: list[ProducerRecord] = []

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        records = list(records)
        large = [one for one in records if self._bytes(one) > self.most_bytes]
        self.written += [one for one in records if one not in large]
        if large:
            raise RecordsRefused(large)

    def _bytes(self, record: ProducerRecord) -> int:
        return record.size + sum(len(name) + len(value) for name, value in record.headers)


@pytest.mark.parametrize(
    ("value", "header", "topics", "kept"),
    [(100, 3_000, ["trial-events"], True), (950, 0, ["trial-rejections"], False)],
    ids=["headers go", "no room"],
)
async def test_a_copy_that_the_broker_refuses_loses_its_headers_or_becomes_a_rejection(
    value: int, header: int, topics: list[str], kept: bool
) -> None:
    record = Record(b"x" * value, 7, partition=1, timestamp=5, headers=[("h", b"y" * header)])
    broker = SmallBroker(most_bytes=960)
    writer = QuarantineWriter(Mock(), RecordEncoder(Names(), Mock()), cast("Any", broker), Mock())
    await writer.write_aside(reroute([(record, "run 1")], 4))
    assert [one.topic for one in broker.written] == topics
    [written] = broker.written
    if kept:
        assert (written.value, written.headers) == (record.value, [(FORWARDED, b"1:7")])
    else:
        rejection = orjson.loads(written.value or b"")
        assert (rejection["code"], rejection["run_id"]) == ("misplaced_too_large", "run 1")
        assert (rejection["source_partition"], rejection["source_offset"]) == (1, 7)
        assert (rejection["source_value_bytes"], rejection["source_value_base64"]) == (value, None)


async def publish_with_headers(deployment: Deployment, events: list[bytes]) -> None:
    """Every event with the header of a forwarded copy, half of them in a wrong partition."""
    async with AIOKafkaProducer(bootstrap_servers=deployment.bootstrap) as producer:
        for number, event in enumerate(events):
            place = (deployment.place(event) + number % 2) % deployment.partitions
            await producer.send_and_wait(
                deployment.names.trial_events, event, partition=place, headers=HEADERS
            )


def test_a_header_that_clients_write_has_no_power(on_both: Deployment) -> None:
    on_both.session = 6.0
    worker = on_both.worker().start()
    events = trial_events(120)
    asyncio.run(publish_with_headers(on_both, events))
    on_both.published += events
    on_both.wait_until_equal(worker)
    assert on_both.records("trial-rejections") == []
    assert on_both.outcomes() == {"equal"}
    worker.restart()
    on_both.wait_until_equal(worker)


def test_a_misplaced_event_with_headers_up_to_the_limit_counts(on_kafka: Deployment) -> None:
    worker = on_kafka.worker().start()
    [event] = trial_events(1)
    header = [("h", os.urandom(MAX_MESSAGE_BYTES - len(event) - 100))]

    async def publish() -> None:
        options = {"bootstrap_servers": on_kafka.bootstrap, "max_request_size": 2 * MAX_MESSAGE_BYTES}
        async with AIOKafkaProducer(**options) as producer:
            place = (on_kafka.place(event) + 1) % on_kafka.partitions
            await producer.send_and_wait(on_kafka.names.trial_events, event, partition=place, headers=header)

    asyncio.run(publish())
    on_kafka.published.append(event)
    on_kafka.wait_until_equal(worker)


# -----------------------------------------------------------------------------
# The promises on which durability rests: the tests catch a worker that breaks one of them.


PARTITION, WORKER, FOREIGN = "test_partition.py", "test_worker.py", "test_foreign_records.py"
ORDER = "pages_are_acknowledged_before_all_else_and_the_rest_before_run_summaries"
IN_QUARANTINE = "runs_in_quarantine_keep_no_batch_waiting_and_count_no_event"
CAUGHT = {
    "summary_before_page": (PARTITION, ORDER),
    "run_summary_at_once": (PARTITION, ORDER),
    "batch_done_at_once": (
        PARTITION,
        "a_run_that_rests_is_published_when_its_rest_is_over_and_no_batch_of_it_is_done_before",
    ),
    "superseded_goes_on": (PARTITION, "a_worker_that_stood_still_for_its_session_writes_nothing_more"),
    "quarantined_counts": (PARTITION, IN_QUARANTINE),
    "quarantined_blocks": (PARTITION, IN_QUARANTINE),
    "closed_stays_closed": (
        WORKER,
        "a_worker_that_closes_runs_publishes_to_the_byte_what_one_does_that_never_closes",
    ),
    "epoch_goes_on": (FOREIGN, "a_log_that_ends_before_its_pages_do_begins_the_next_epoch[39-2]"),
}
"""Broken promise -> the file and the test that notice it."""


FAULT_WAIT_SECONDS = "15"
"""How long a test waits for what a broken promise keeps from coming; enough where none is broken, too."""


def outcome(mutant: str, *tests: tuple[str, str]) -> str:
    """What pytest says of tests of this folder where this fault is planted."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    nodes = [f"tests/worker/{file}::test_{name}" for file, name in tests]
    done = subprocess.run(
        [*argv, "-p", "tests.worker.mutants", *nodes],
        env=os.environ | {"MUTANT": mutant, "WAIT_SECONDS": FAULT_WAIT_SECONDS},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.stack
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
@pytest.mark.in_turn(2)
def test_a_broken_promise_is_noticed(mutant: str) -> None:
    assert "1 failed" in outcome(mutant, CAUGHT[mutant])


@pytest.mark.stack
def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    tests = sorted(set(CAUGHT.values()))
    assert f"{len(tests)} passed" in outcome("none", *tests)
