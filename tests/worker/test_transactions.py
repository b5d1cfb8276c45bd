"""Publishers that use transactions: what they abort does not count, and nothing waits for it."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaProducer

from streamer.folding.score.prices import PriceTable
from streamer.operate.health import read_lags
from streamer.operate.verify import Verification
from tests.worker.deployment import Deployment, trial_events

pytestmark = pytest.mark.kafka
SESSION = 6.0


class Transactions:
    """Publishes to one partition after the other in transactions that it commits, aborts or leaves open."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._producer = AIOKafkaProducer(
            bootstrap_servers=deployment.bootstrap, transactional_id=f"test-{uuid.uuid4().hex}"
        )

    async def __aenter__(self) -> Transactions:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def send(self, events: list[bytes], *, commit: bool) -> None:
        await self.begin(events)
        if commit:
            await self._producer.commit_transaction()
            self._deployment.published += events
        else:
            await self._producer.abort_transaction()

    async def begin(self, events: list[bytes]) -> None:
        await self._producer.begin_transaction()
        for event in events:
            place = self._deployment.place(event)
            await self._producer.send_and_wait(self._deployment.names.trial_events, event, partition=place)


async def publish_and_abort(deployment: Deployment) -> None:
    events = trial_events(240)
    async with Transactions(deployment) as transactions:
        for number in range(6):
            part = events[number * 40 : number * 40 + 40]
            await transactions.send(part, commit=number % 2 == 0)


def lags(deployment: Deployment) -> list[int]:
    return [partition.lag for partition in asyncio.run(read_lags(deployment.settings))]


def test_aborted_transactions_do_not_count_and_leave_no_lag(on_kafka: Deployment) -> None:
    on_kafka.session = SESSION
    worker = on_kafka.worker().start()
    asyncio.run(publish_and_abort(on_kafka))
    on_kafka.wait_until_equal(worker)
    worker.wait_until(lambda: not any(lags(on_kafka)), "nothing lags, not even the markers of transactions")
    verification = Verification(on_kafka.settings, prices=PriceTable.default(), wait_seconds=30, topics=True)
    assert {verdict.outcome for verdict in verification.verify(None)} == {"equal"}
    assert worker.stop() == 0
    worker.start()
    on_kafka.wait_until_equal(worker)


async def leave_one_open(deployment: Deployment) -> None:
    async with Transactions(deployment) as committed, Transactions(deployment) as left:
        await committed.send(trial_events(60), commit=True)
        await left.begin(trial_events(90)[60:])
        verification = Verification(
            deployment.settings, prices=PriceTable.default(), wait_seconds=30, topics=True
        )
        verdicts = await asyncio.to_thread(verification.verify, None)
        assert {verdict.outcome for verdict in verdicts} == {"equal"}


def test_a_transaction_that_is_open_holds_up_no_verification(on_kafka: Deployment) -> None:
    on_kafka.session = SESSION
    worker = on_kafka.worker().start()
    asyncio.run(leave_one_open(on_kafka))
    on_kafka.wait_until_equal(worker)
