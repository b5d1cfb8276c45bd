"""Readers see one state, whatever happens to Redis and to the worker meanwhile."""

from __future__ import annotations

import pytest

from tests.support.polling import Poller
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment, trial_events

RUNS = [f"run {number}" for number in range(6)]
ROUNDS = 12
EVENTS_PER_ROUND = 60


def readers_see_one_state(deployment: Deployment, redis_server: RedisServer) -> None:
    deployment.session = 6.0
    worker = deployment.worker().start()
    events = trial_events(ROUNDS * EVENTS_PER_ROUND)
    with Poller(redis_server.url, RUNS, deployment.namespace) as poller:
        for number in range(ROUNDS):
            part = events[number * EVENTS_PER_ROUND :][:EVENTS_PER_ROUND]
            for start in range(0, EVENTS_PER_ROUND, 10):
                deployment.publish(part[start : start + 10])
                if start == 30:
                    redis_server.flush()
            if number == 4:
                worker.kill()
                worker.start()
            if number == 7:
                assert worker.stop() == 0
                redis_server.flush()
                worker.start()
            if number == 9:
                redis_server.restart_empty()
        deployment.wait_until_equal(worker)
        seen = poller.polls
        wait_for(lambda: poller.polls > seen, "the reader sees the end")
    assert poller.polls > 100
    assert poller.torn == []


@pytest.mark.slow
def test_readers_see_one_state_on_the_embedded_broker(
    on_embedded: Deployment, redis_server: RedisServer
) -> None:
    readers_see_one_state(on_embedded, redis_server)


@pytest.mark.kafka
@pytest.mark.slow
def test_readers_see_one_state_on_kafka(on_kafka: Deployment, redis_server: RedisServer) -> None:
    readers_see_one_state(on_kafka, redis_server)
