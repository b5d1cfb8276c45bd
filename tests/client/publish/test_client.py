"""The broker goes away under a publishing harness: everything arrives, and no call waits."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.client import (
    AsyncTrialPublisher,
    EventsLost,
    InvalidEvent,
    InvalidEvents,
    NotAccepted,
    TrialPublisher,
)
from streamer.client.capture import MAX_WAITING_BYTES, REFUSED
from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.schemas.events import EVENT
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.process import ensure_topics
from tests.client.publish.publishing import (
    DEADLINE_SECONDS,
    LARGE,
    PARTITIONS,
    Harness,
    arrived,
    events,
    make_topics,
    settings_of,
    spilled_lines,
    tasks,
    unwritable,
)
from tests.support.events import a_trial
from tests.support.servers import KafkaServer, pause
from tests.support.worker_process import wait_for

LONGEST_CALL_SECONDS = 0.5
"""Far below every timeout on the way to the broker; far above what a busy machine takes from a thread."""

BACK_SECONDS = 40


Step = Callable[[], object]
OUTAGES: dict[str, Callable[[KafkaServer], tuple[Step, Step]]] = {
    "paused": lambda kafka: (kafka.pause, kafka.resume),
    "killed": lambda kafka: (kafka.kill, kafka.start),
}
"""How Kafka goes away and comes back: connections stay open and nothing answers, or SIGKILL."""


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.resume()
    server.stop()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def on_kafka(own_kafka: KafkaServer, namespace: str) -> Settings:
    return make_topics(settings_of(own_kafka.bootstrap, namespace, embedded=False))


def through_an_outage(
    away: Step, back: Step, settings: Settings, directory: Path, seconds: float = 0
) -> None:
    """Publish before, during (for some seconds, and until much has been spilled) and after an outage."""
    with TrialPublisher(settings, spill_dir=directory) as publisher:
        harness = Harness(publisher)
        harness.publish(200)
        assert publisher.flush(BACK_SECONDS)
        away()
        until = time.monotonic() + seconds
        harness.publish_until(
            lambda: publisher.counts.spilled > 500 and time.monotonic() > until, "500 events are spilled"
        )
        assert publisher.problem is not None
        back()
        harness.publish_until(lambda: publisher.problem is None, "the publisher is well again", BACK_SECONDS)
        harness.publish(200)
        assert publisher.flush(BACK_SECONDS)
        counts = publisher.counts
    assert (counts.sent, counts.pending, counts.files) == (harness.published, 0, ())
    assert list(directory.iterdir()) == []
    assert set(arrived(settings)) == tasks(harness.published)
    assert harness.longest_call_seconds < LONGEST_CALL_SECONDS


@pytest.mark.kafka
@pytest.mark.parametrize("seconds", [0, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", OUTAGES)
def test_all_events_arrive_over_an_outage_of_kafka_and_no_call_waits(
    kind: str, seconds: int, own_kafka: KafkaServer, on_kafka: Settings, tmp_path: Path
) -> None:
    through_an_outage(*OUTAGES[kind](own_kafka), on_kafka, tmp_path, seconds)


@pytest.mark.kafka
async def test_what_kafka_refuses_for_its_size_is_put_aside_and_keeps_nothing_back(
    kafka_bootstrap: str, namespace: str, tmp_path: Path
) -> None:
    settings = settings_of(kafka_bootstrap, namespace, embedded=False)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    topic = Names(namespace).trial_events  # a limit that is set later takes some time to hold
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"max.message.bytes": "20000"})])
    await admin.close()
    await ensure_topics(settings)
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        noise = random.Random(1).randbytes(50_000).hex()  # hardly gets smaller by compression
        large = {noise[at : at + 4_000]: None for at in range(0, len(noise), 4_000)}
        publisher.trial(run_id="r", task_id="large", benchmarks=large)
        for number in range(100):
            publisher.trial(run_id="r", task_id=f"task-{number}", trial_name="x" * 1_000)
        assert await publisher.flush(BACK_SECONDS)
        assert (publisher.counts.sent, publisher.counts.rejected) == (100, 1)
    [refused] = (tmp_path / REFUSED).read_bytes().splitlines()
    assert orjson.loads(refused)["task_id"] == "large"
    assert set(await asyncio.to_thread(arrived, settings)) == tasks(100)


@pytest.mark.stack
def test_all_events_arrive_when_the_embedded_broker_pauses(own_broker: Broker, tmp_path: Path) -> None:
    settings, child = make_topics(settings_of(own_broker.bootstrap)), own_broker.child
    through_an_outage(lambda: pause(child.pid), lambda: child.signal(signal.SIGCONT), settings, tmp_path)


@pytest.mark.stack
def test_a_broker_that_comes_back_empty_gets_all_that_it_had_not_acknowledged_once_it_has_topics(
    own_broker: Broker, tmp_path: Path
) -> None:
    """The embedded broker forgets what it acknowledged (`up` keeps that); the rest is ours."""
    settings = make_topics(settings_of(own_broker.bootstrap))
    with TrialPublisher(settings, spill_dir=tmp_path) as publisher:
        harness = Harness(publisher)
        harness.publish(100)
        assert publisher.flush(BACK_SECONDS)
        own_broker.child.kill()
        harness.publish_until(lambda: publisher.counts.spilled >= 200, "200 events are spilled")
        own_broker.start()
        harness.publish(50)
        assert publisher.counts.sent == 100
        make_topics(settings)  # with our partition count: the publisher has not created them by asking
        assert publisher.flush(BACK_SECONDS)
    assert set(arrived(settings)) == tasks(harness.published) - tasks(100)


@pytest.mark.stack
def test_a_publisher_may_start_before_the_broker_and_says_where_the_events_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(free_port())
    settings = settings_of(broker.bootstrap)
    with TrialPublisher(settings, spill_dir=tmp_path, close_seconds=0.2) as publisher:
        Harness(publisher).publish(20)
        wait_for(lambda: publisher.counts.spilled == 20, "the events are on the disk")
        assert broker.bootstrap in (publisher.problem or "")
    counts = publisher.counts
    assert (counts.sent, counts.pending, len(counts.files)) == (0, 20, 1)
    assert len(spilled_lines(tmp_path)) == 20
    [away, left] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert str(tmp_path) in away
    assert "20 events did not reach the broker" in left
    assert str(counts.files[0]) in left
    with broker:
        make_topics(settings)
        with TrialPublisher(settings, spill_dir=tmp_path) as later:
            assert later.counts.pending == 20
        assert (later.counts.sent, later.counts.pending) == (20, 0)
        assert arrived(settings) == dict.fromkeys(tasks(20), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.stack
def test_without_a_writable_directory_memory_does_while_the_broker_is_away(
    own_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, directory = settings_of(own_broker.bootstrap), tmp_path / "spill"
    with unwritable(directory), TrialPublisher(settings, spill_dir=directory) as publisher:
        harness = Harness(publisher)
        harness.publish_until(lambda: str(directory) in (publisher.problem or ""), "the problem is told")
        harness.publish(100)
        make_topics(settings)
        assert publisher.flush(BACK_SECONDS)
    assert set(arrived(settings)) == tasks(harness.published)
    assert f"cannot keep events in {directory}" in caplog.text


@pytest.fixture
def away() -> Settings:
    """A deployment whose broker is not there."""
    return settings_of(f"127.0.0.1:{free_port()}")


def test_a_directory_that_can_be_written_again_takes_what_waits_in_memory(
    away: Settings, tmp_path: Path
) -> None:
    directory = tmp_path / "spill"
    with TrialPublisher(away, spill_dir=directory, close_seconds=0) as publisher:
        directory.rmdir()
        with unwritable(directory):
            Harness(publisher).publish(30)
            wait_for(lambda: str(directory) in (publisher.problem or ""), "the problem is told")
        wait_for(lambda: publisher.counts.spilled == 30, "the events are on the disk")
    assert len(spilled_lines(directory)) == 30


def test_what_neither_broker_nor_disk_took_is_told_at_close(away: Settings, tmp_path: Path) -> None:
    with unwritable(tmp_path / "spill"):
        publisher = TrialPublisher(away, spill_dir=tmp_path / "spill", close_seconds=0.1)
        Harness(publisher).publish(10)
        with pytest.raises(EventsLost, match=r"10 events are lost.*Publish the same events again"):
            publisher.close()
    assert publisher.counts.pending == 10


def test_ctrl_c_while_it_closes_puts_what_is_left_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, away: Settings, tmp_path: Path
) -> None:
    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setattr("streamer.storage.outbox.JOIN_SECONDS", 0)
    publisher = TrialPublisher(away, spill_dir=tmp_path, close_seconds=DEADLINE_SECONDS)
    begin = publisher._closing
    monkeypatch.setattr(publisher, "_closing", lambda: (begin(), Interrupted())[1])
    Harness(publisher).publish(100)
    with pytest.raises(KeyboardInterrupt):
        publisher.close()
    assert (publisher.counts.pending, len(spilled_lines(tmp_path))) == (100, 100)


async def test_a_close_that_is_cancelled_puts_what_is_left_on_the_disk(
    monkeypatch: pytest.MonkeyPatch, away: Settings, tmp_path: Path
) -> None:
    monkeypatch.setattr("streamer.storage.outbox.JOIN_SECONDS", 0)
    publisher = AsyncTrialPublisher(away, spill_dir=tmp_path, close_seconds=DEADLINE_SECONDS)
    for number in range(100):
        publisher.trial(run_id="r", task_id=f"task-{number}")
    closing = asyncio.create_task(publisher.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (publisher.counts.pending, len(spilled_lines(tmp_path))) == (100, 100)


def test_memory_is_bounded_and_a_call_that_does_not_fit_says_so(away: Settings, tmp_path: Path) -> None:
    directory, text = tmp_path / "spill", "x" * 1_000
    most, taken = MAX_WAITING_BYTES // len(text), 0
    with unwritable(directory):
        publisher = TrialPublisher(away, spill_dir=directory, close_seconds=0)
        with pytest.raises(NotAccepted, match=r"events .64 MiB. already wait in memory"):  # noqa: PT012
            while taken <= most:
                publisher.trial(run_id="r", task_id=f"task-{taken}", trial_name=text)
                taken += 1
        assert taken > most / 2
    assert (publisher.close().pending, len(spilled_lines(directory))) == (taken, taken)


@pytest.mark.parametrize("wrong", [[1], "text", None, 7, b"{}"])
def test_what_is_neither_mapping_nor_model_fails_at_the_call(publisher: TrialPublisher, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"takes an event, a mapping or a model.*not"):
        publisher.publish(wrong)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"score": math.nan}, "not_finite", "'score' is not a finite number"),
        ({"benchmarks": {"b": {"agent/nop": [1.0, math.inf]}}}, "not_finite", "benchmarks.b.agent/nop.1"),
        ({"trial_name": {1, 2}}, "not_json", "set"),
        ({"trial_name": "\ud800"}, "not_json", "surrogates"),
        ({"input_tokens": 2**70}, "not_json", "64-bit"),
        ({"trial_name": "x" * 2**20}, "too_large", "1,048,576 are allowed"),
    ],
)
def test_what_json_cannot_hold_fails_at_the_call(
    publisher: TrialPublisher, settings: Settings, change: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(InvalidEvent, match=says) as caught:
        publisher.publish(a_trial() | change)
    assert caught.value.code == code
    publisher.publish(a_trial(task_id="the next one"))
    assert publisher.flush(DEADLINE_SECONDS)
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 1)
    assert arrived(settings) == {"the next one": 1}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"type": "trail_result"}, "unknown_type", "trail_result"),
        ({"task_id": ""}, "invalid_field", "task_id"),
        ({"resolved": "yes"}, "invalid_field", "resolved"),
        ({"attempt": None}, "invalid_field", "attempt"),
        ({"tests": {"status": "odd"}}, "invalid_field", "tests.status"),
        ({"finished_at": "1 January 2026"}, "invalid_field", "RFC 3339 with a zone"),
        ({"attempt": 0, "benchmarks": LARGE}, "invalid_field", "attempt"),
        ({"benchmarks": LARGE | {"b": {"agent/nop": [math.inf]}}}, "not_finite", "benchmarks.b.agent/nop"),
        ({"benchmarks": LARGE | {"b": {1, 2}}}, "not_json", "set"),
        ({"benchmarks": LARGE | {"b": {"agent/nop": "\ud800"}}}, "not_json", "surrogates"),
        ({"benchmarks": LARGE | {"b": "x" * 2**20}}, "too_large", "1,048,576 are allowed"),
        ({"benchmarks": dict.fromkeys(map(str, range(10_001)), 1.0)}, "invalid_field", "at most 10000 items"),
        ({"benchmarks": [LARGE]}, "invalid_field", "benchmarks"),
    ],
)
def test_an_invalid_event_is_handed_on_put_aside_and_keeps_nothing_back(
    settings: Settings, tmp_path: Path, change: dict[str, Any], code: str, says: str
) -> None:
    handed_on: list[InvalidEvent] = []
    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=handed_on.append) as publisher:
        publisher.publish(a_trial(run_id="nightly", task_id="bad") | change)
        publisher.publish(a_trial(task_id="the next one"))
        assert publisher.flush(DEADLINE_SECONDS)
    assert publisher.invalid == tuple(handed_on)
    [error] = handed_on
    assert (error.code, error.run_id, error.task_id) == (code, "nightly", change.get("task_id", "bad"))
    assert says in str(error)
    assert (publisher.counts.sent, publisher.counts.rejected, publisher.counts.pending) == (1, 1, 0)
    assert arrived(settings) == {"the next one": 1}
    [aside] = (tmp_path / REFUSED).read_bytes().splitlines()
    assert orjson.loads(aside)["run_id"] == "nightly"


def test_closing_says_which_events_were_invalid_and_hides_no_error_before(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    for attempt in (0, 1, -1):
        publisher.trial(run_id="nightly", task_id="t1", attempt=attempt)
    says = r"^2 published events were invalid.*nightly.*'attempt'.*got 0"
    with pytest.raises(InvalidEvents, match=says) as caught:
        publisher.close()
    assert caught.value.count == len(caught.value.first) == 2
    assert str(tmp_path / REFUSED) in str(caught.value)
    assert publisher.close() == publisher.counts
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 2)
    with pytest.raises(ZeroDivisionError), TrialPublisher(settings, spill_dir=tmp_path) as publisher:  # noqa: PT012
        publisher.trial(run_id="nightly", task_id="t1", attempt=0)
        raise ZeroDivisionError


def test_a_callback_that_fails_stops_nothing(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: InvalidEvent) -> None:
        raise ZeroDivisionError

    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=fail) as publisher:
        for attempt in (0, 1):
            publisher.trial(run_id="nightly", task_id="t1", attempt=attempt)
        assert publisher.flush(DEADLINE_SECONDS)
    assert publisher.counts.sent == 1
    assert "on_invalid failed" in caplog.text


def test_each_helper_publishes_its_event(publisher: TrialPublisher, settings: Settings) -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    trial: dict[str, Any] = {"run_id": "r", "task_id": "t1", "agent": "a", "model": "m"}
    publisher.run_started(run_id="r", tasks=["t1"], attempts=2, started_at=start, labels={"team": "x"})
    publisher.started(**trial, attempt=2, started_at=start, position=7)
    publisher.trial(**trial, resolved=True, cost_usd=0.5, tier=None)
    publisher.scored(**trial, score=0.7)
    publisher.retract(**trial, revision=3)
    publisher.run_finished(run_id="r", status="done")
    publisher.publish(EVENT.validate_python({"type": "run_finished", "run_id": "r2"}))
    assert publisher.flush(DEADLINE_SECONDS)
    result = {(event["type"], event["run_id"]): event for event in events(settings)}
    assert len(result) == 7
    assert result["trial_scored", "r"]["score"] == 0.7
    assert result["run_started", "r"]["started_at"] == "2026-01-02T03:04:05Z"
    assert result["trial_result", "r"]["cost_usd"] == 0.5
    assert result["trial_retracted", "r"]["revision"] == 3
    assert result["run_finished", "r"]["status"] == "done"
    began = {"type": "trial_started", "started_at": "2026-01-02T03:04:05Z", "attempt": 2, "position": 7}
    assert result["trial_started", "r"] == trial | began


async def test_an_async_publisher_never_holds_up_its_loop(
    embedded_broker: str, namespace: str, tmp_path: Path
) -> None:
    settings = settings_of(embedded_broker, namespace)
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        for number in range(49):  # there are no topics yet
            publisher.trial(run_id="r", task_id=f"task-{number}")
        publisher.started(run_id="r", task_id="task-49", agent="a", model="m", position=0)
        await ensure_topics(settings)
        assert await publisher.flush(DEADLINE_SECONDS)
    assert (await publisher.close()).sent == 50
    assert set(await asyncio.to_thread(arrived, settings)) == tasks(50)


def test_many_threads_may_publish_at_once(publisher: TrialPublisher, settings: Settings) -> None:
    def work(first: int) -> None:
        for number in range(first, 400, 4):
            publisher.trial(run_id=f"run {number % 7}", task_id=f"task-{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert publisher.flush(DEADLINE_SECONDS)
    assert arrived(settings) == dict.fromkeys(tasks(400), 1)
    counts = publisher.counts
    assert (counts.sent, counts.rejected, counts.pending, counts.files) == (400, 0, 0, ())


def test_an_event_is_taken_as_it_is_at_the_call(publisher: TrialPublisher, settings: Settings) -> None:
    event = a_trial(tests={"status": "ok", "passed": 1}, benchmarks={"b": {"agent/nop": 0.5}})
    as_it_was = deepcopy(event)
    publisher.publish(event)
    event["task_id"] = "after"
    event["tests"]["passed"] = 2
    event["benchmarks"]["b"]["agent/nop"] = 0.75
    assert publisher.flush(DEADLINE_SECONDS)
    assert events(settings) == [as_it_was]


def test_after_close_nothing_is_taken_and_closing_again_does_no_harm(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    publisher.publish(a_trial())
    assert publisher.close() == publisher.close()
    assert (publisher.counts.sent, publisher.counts.pending) == (1, 0)
    with pytest.raises(RuntimeError, match="closed"):
        publisher.publish(a_trial())
    assert publisher.flush()
    assert list(tmp_path.iterdir()) == []


AT_EXIT = """
import sys
from streamer.client import Settings, TrialPublisher
bootstrap, namespace, directory = sys.argv[1:]
settings = Settings(bootstrap=bootstrap, namespace=namespace, embedded=True)
publisher = TrialPublisher(settings, spill_dir=directory)
for number in range(20):
    publisher.trial(run_id="r", task_id=f"task-{number}")
"""


IN_CHILDREN = """
import multiprocessing, sys
from streamer.client import Settings, TrialPublisher
bootstrap, namespace, directory = sys.argv[1:]
def trial(number):
    settings = Settings(bootstrap=bootstrap, namespace=namespace, embedded=True)
    TrialPublisher(settings, spill_dir=directory).trial(run_id="r", task_id=f"task-{number}")
fork = multiprocessing.get_context("fork")
children = [fork.Process(target=trial, args=(number,)) for number in range(2)]
for child in children:
    child.start()
sys.exit(sum(child.join() or child.exitcode for child in children))
"""


@pytest.mark.parametrize(("program", "count"), [(AT_EXIT, 20), (IN_CHILDREN, 2)])
def test_a_process_that_ends_without_close_delivers_at_exit(
    program: str, count: int, settings: Settings, tmp_path: Path
) -> None:
    command = [sys.executable, "-W", "error", "-c", program, settings.bootstrap, settings.namespace]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(arrived(settings)) == tasks(count)


def test_in_a_forked_child_the_parents_publisher_refuses_and_a_new_one_works(
    publisher: TrialPublisher, settings: Settings, tmp_path: Path
) -> None:
    publisher.trial(run_id="r", task_id="task-0")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(RuntimeError, match="Create one in the child"):
                publisher.trial(run_id="r", task_id="never")
            signal.alarm(DEADLINE_SECONDS)
            publisher.flush(1)  # there is no thread to answer
            with TrialPublisher(settings, spill_dir=tmp_path / "child") as fresh:
                fresh.trial(run_id="r", task_id="task-1")
            code = 0 if fresh.counts.sent == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    publisher.trial(run_id="r", task_id="task-2")
    assert publisher.flush(DEADLINE_SECONDS)
    assert set(arrived(settings)) == tasks(3)
