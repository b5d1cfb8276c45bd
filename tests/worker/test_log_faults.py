"""What happens to the log behind the workers' backs is noticed, told, and mended where it can be."""

from __future__ import annotations

import asyncio
import re
import signal
import uuid
from collections.abc import Mapping

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from streamer.operate.health import read_health, read_lags
from tests.support.cli import found_by, streamer
from tests.support.servers import pause
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events

pytestmark = pytest.mark.kafka
SESSION = 6.0


def problems(deployment: Deployment, words: str) -> list[str]:
    """What `streamer status` says with these words in it."""
    return [problem for problem in read_health(deployment.settings).problems if words in problem]


def ends(deployment: Deployment) -> dict[int, int]:
    return {p.partition: p.end for p in asyncio.run(read_lags(deployment.settings))}


async def commit(deployment: Deployment, offsets: Mapping[int, int]) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` does."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=deployment.bootstrap, group_id=deployment.names.group, enable_auto_commit=False
    )
    await consumer.start()
    topic = deployment.names.trial_events
    places = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
    consumer.assign(list(places))
    await consumer.commit(places)
    await consumer.stop()


def settled(deployment: Deployment) -> WorkerProcess:
    """A worker that has folded and committed the first events, and ended."""
    deployment.session = SESSION
    return deployment.settled(trial_events(120))


def begun(deployment: Deployment) -> WorkerProcess:
    """The same, running again."""
    return settled(deployment).start()


def test_offsets_reset_to_the_latest_are_noticed_and_lose_nothing(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    on_kafka.publish(trial_events(200, seed=2))
    asyncio.run(commit(on_kafka, ends(on_kafka)))
    on_kafka.wait_until_equal(worker.start())
    assert "its committed offset was moved to" in worker.output
    worker.wait_until(lambda: problems(on_kafka, "its committed offset was moved forward"), "status tells")
    assert on_kafka.outcomes() == {"equal"}
    on_kafka.wait_until_committed(worker)
    worker.restart()
    on_kafka.go_on(worker, trial_events(20, seed=3))
    worker.wait_until(
        lambda: not problems(on_kafka, "its committed offset was moved forward"), "a restart ends it"
    )


def test_offsets_set_back_and_offsets_that_are_gone_are_no_problem(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    asyncio.run(commit(on_kafka, {place: min(3, end) for place, end in ends(on_kafka).items()}))
    on_kafka.go_on(worker.start(), trial_events(20, seed=3))
    assert problems(on_kafka, "partition") == []


def test_events_deleted_while_no_worker_ran_are_told_from_then_on(on_kafka: Deployment) -> None:
    worker = settled(on_kafka)
    on_kafka.publish(trial_events(200, seed=2))
    on_kafka.delete_records("trial-events", {n: end - 2 for n, end in ends(on_kafka).items() if end > 2})
    worker.start()
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "status tells")
    assert "before they were folded" in worker.output
    worker.restart()
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "it is told after a restart")


def test_events_deleted_in_front_of_a_worker_that_lags_are_told(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    pause(worker.process.pid)
    try:
        on_kafka.publish(trial_events(200, seed=2))  # a fetch that is under way may bring these
        on_kafka.publish(trial_events(200, seed=4))
        on_kafka.delete_records("trial-events", ends(on_kafka))
    finally:
        worker.signal(signal.SIGCONT)
    on_kafka.publish(trial_events(20, seed=3))
    worker.wait_until(lambda: problems(on_kafka, "before they were folded"), "status tells")


def test_events_deleted_after_they_were_folded_are_no_loss(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    on_kafka.delete_records("trial-events", {n: end - 1 for n, end in ends(on_kafka).items() if end})
    on_kafka.go_on(worker, trial_events(20, seed=3))
    worker.restart()
    on_kafka.go_on(worker, trial_events(20, seed=4))
    assert problems(on_kafka, "partition") == []


def test_a_finite_retention_of_the_event_topic_is_told(on_kafka: Deployment) -> None:
    worker = begun(on_kafka)
    assert problems(on_kafka, "loses events") == []
    on_kafka.configure("trial-events", retention_ms=604_800_000)
    [problem] = problems(on_kafka, "loses events")
    assert "retention.ms=604800000. Set retention.ms=-1" in problem
    worker.wait_until(lambda: "loses events: retention.ms=604800000" in worker.output, "the worker tells", 40)


@pytest.mark.parametrize("running", [False, True])
def test_a_deleted_topic_of_scored_trials_is_filled_again(on_kafka: Deployment, running: bool) -> None:
    """Its deletion ends a running worker, and the next one fills it."""
    worker = begun(on_kafka) if running else settled(on_kafka)
    before = set(on_kafka.latest("scored-trials"))
    on_kafka.delete_topics("scored-trials")
    if running:
        assert worker.wait(90) == 1
        assert "scored-trials were deleted" in worker.output
    worker.start()
    worker.wait_until(lambda: on_kafka.latest("scored-trials").keys() == before, "all of them are back")
    assert on_kafka.outcomes() == {"equal"}


# -----------------------------------------------------------------------------
# Publishers that use transactions: what they abort does not count, and nothing waits for it.


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
    assert on_kafka.outcomes() == {"equal"}
    worker.restart()
    on_kafka.wait_until_equal(worker)


async def leave_one_open(deployment: Deployment) -> None:
    async with Transactions(deployment) as committed, Transactions(deployment) as left:
        await committed.send(trial_events(60), commit=True)
        await left.begin(trial_events(90)[60:])
        assert await asyncio.to_thread(deployment.outcomes) == {"equal"}
        [problem] = await asyncio.to_thread(problems, deployment, "open transaction")
        waiting = re.match(r"Up to (\d+) events wait behind an open transaction of another client", problem)
        assert waiting, problem
        # The marker of the commit, one a partition, may come after the first event of the open transaction.
        assert 30 <= int(waiting[1]) <= 30 + len(await read_lags(deployment.settings))
        verified = await asyncio.to_thread(
            streamer, "verify", "--all", environment=found_by(deployment.settings)
        )
        assert (verified.returncode, verified.stderr.decode()) == (0, f"streamer: not verified: {problem}\n")


def test_a_transaction_that_is_open_is_named_and_holds_up_no_verification(on_kafka: Deployment) -> None:
    on_kafka.session = SESSION
    worker = on_kafka.worker().start()
    asyncio.run(leave_one_open(on_kafka))
    on_kafka.wait_until_equal(worker)
