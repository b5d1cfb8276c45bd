"""What tests of verifying share: a run with some of everything, and verdicts on it."""

from __future__ import annotations

import asyncio
import json

import redis
from aiokafka import AIOKafkaProducer

from streamer.client.readers import StateReader
from streamer.folding.prices import PriceTable
from streamer.operate.health import Flow, live_workers, read_lags
from streamer.operate.verify import Verdict, Verification
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.outbox import ThreadedPublisher, outgoing
from tests.support.events import Event, a_plan, a_retraction, a_trial
from tests.support.online import PARTITIONS, Online

PRICES = PriceTable.default()


def a_run(run_id: str) -> list[Event]:
    trials = [
        a_trial(run_id=run_id, task_id=f"t{n % 4}", tier=f"T{n % 2}", attempt=n // 8 + 1, agent=agent)
        | {"resolved": n % 3 > 0, "score": n / 23, "revision": 1, "input_tokens": 10 * n, "output_tokens": n}
        for n in range(24)
        for agent in ("terminus", "nop")
    ]
    plan = a_plan(run_id=run_id, tasks=4, attempts=3, tiers=["T0", "T1"], benchmark="b")
    correction = trials[3] | {"resolved": True, "revision": 2}
    retraction = a_retraction(run_id=run_id, task_id="t1", tier="T1", revision=5)
    return [*trials, plan, correction, retraction]


def publish(settings: Settings, events: list[Event]) -> None:
    with ThreadedPublisher(settings) as publisher:
        for event in events:
            publisher.send(outgoing(event))


def verdict_of(settings: Settings, run_id: str, wait_seconds: float = 30, *, topics: bool = False) -> Verdict:
    verification = Verification(settings, prices=PRICES, wait_seconds=wait_seconds, topics=topics)
    [verdict] = verification.verify(run_id)
    return verdict


def wait_until_published(stack: Online) -> None:
    """Wait until the workers have published every event; from then on they write nothing over a fault."""

    def published() -> bool:
        with StateReader(stack.settings) as reader:
            workers = tuple(worker.status for worker in live_workers(reader))
        flow = Flow(tuple(asyncio.run(read_lags(stack.settings))), workers)
        return flow.in_flight is None and not flow.without_owner

    stack.worker.wait_until(published, "all is published")


def client(stack: Online) -> redis.Redis:
    return redis.Redis.from_url(stack.redis.url, decode_responses=True)


async def scatter(settings: Settings, events: list[Event]) -> None:
    topic = Names(settings.namespace).trial_events
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for number, event in enumerate(events):
            await producer.send_and_wait(topic, json.dumps(event).encode(), partition=number % PARTITIONS)


def topics_verdict(settings: Settings, run_id: str) -> Verdict:
    return verdict_of(settings, run_id, topics=True)


def left_by_a_worker(idle: Online, run_id: str) -> None:
    """Start the worker, publish a run, and stop the worker once all of it is published everywhere."""
    idle.worker.start()
    publish(idle.settings, a_run(run_id))
    wait_until_published(idle)
    assert topics_verdict(idle.settings, run_id).outcome == "equal"
    assert idle.worker.stop() == 0
