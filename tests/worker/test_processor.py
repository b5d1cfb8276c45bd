"""A record is placed by where it lies; what a client writes into its headers has no power."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from streamer.folding.score.prices import PriceTable
from streamer.operate.verify import Verification
from streamer.schemas.wire import Record
from streamer.storage.kafka import partition_of
from streamer.worker.processor import FORWARDED, reroute
from tests.worker.deployment import Deployment, trial_events

HEADERS = [(FORWARDED, b"0:0"), ("other", b"kept")]


def test_a_copy_names_its_original_whatever_a_client_wrote() -> None:
    record = Record(b"{}", 7, partition=1, key=b"k", headers=HEADERS)
    [out] = reroute([(record, "run")], 4)
    assert (out.partition, out.key) == (partition_of("run", 4), b"run")
    assert out.headers == [("other", b"kept"), (FORWARDED, b"1:7")]


async def publish_with_headers(deployment: Deployment, events: list[bytes]) -> None:
    """Every event with the header of a forwarded copy, half of them in a wrong partition."""
    async with AIOKafkaProducer(bootstrap_servers=deployment.bootstrap) as producer:
        for number, event in enumerate(events):
            place = (deployment.place(event) + number % 2) % deployment.partitions
            await producer.send_and_wait(
                deployment.names.trial_events, event, partition=place, headers=HEADERS
            )


def headers_have_no_power(deployment: Deployment) -> None:
    deployment.session = 6.0
    worker = deployment.worker().start()
    events = trial_events(120)
    asyncio.run(publish_with_headers(deployment, events))
    deployment.published += events
    deployment.wait_until_equal(worker)
    assert deployment.records("trial-rejections") == []
    verification = Verification(
        deployment.settings, prices=PriceTable.default(), wait_seconds=30, topics=True
    )
    assert {verdict.outcome for verdict in verification.verify(None)} == {"equal"}
    assert worker.stop() == 0
    worker.start()
    deployment.wait_until_equal(worker)


@pytest.mark.kafka
def test_a_header_that_clients_write_has_no_power_on_kafka(on_kafka: Deployment) -> None:
    headers_have_no_power(on_kafka)


def test_a_header_that_clients_write_has_no_power_on_the_embedded_broker(on_embedded: Deployment) -> None:
    headers_have_no_power(on_embedded)
