"""The embedded broker takes records, and ends when told."""

from __future__ import annotations

import pytest

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import kafka_answers
from tests.operate.writers import offset_after_sending


async def test_the_embedded_broker_takes_records(embedded_broker: str, namespace: str) -> None:
    assert await offset_after_sending(embedded_broker, namespace, create=True) == 0


@pytest.mark.stack
def test_the_embedded_broker_ends_when_told() -> None:
    with Broker() as broker:
        assert kafka_answers(broker.port)
    assert not broker.child.alive
    assert not kafka_answers(broker.port)
