"""A harness publishes: what it may say, what it is told, and that everything arrives."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from schemas.decode import decode
from schemas.events import EVENT, RunFinished, RunStarted, TrialResult, TrialRetracted
from streamer.client import AsyncTrialPublisher, InvalidEvent, TrialPublisher
from streamer.client.log import read_topic
from streamer.client.outbound import FinishFields, PlanFields, RetractionFields, TrialFields, checked
from streamer.client.spill import spill_dir
from streamer.settings import Settings
from streamer.sinks.names import Names
from streamer.worker.topics import ensure_topics
from tests.client.publishing import arrived, make_topics, settings_of, tasks
from tests.support.events import a_trial

DEADLINE_SECONDS = 20


@pytest.fixture
def settings(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


@pytest.fixture
def publisher(settings: Settings, tmp_path: Path) -> Iterator[TrialPublisher]:
    with TrialPublisher(settings, spill_dir=tmp_path) as publisher:
        yield publisher


def events(settings: Settings) -> list[dict[str, Any]]:
    topic = Names(settings.namespace).trial_events
    return [orjson.loads(record.value) for record in read_topic(settings, topic)]


def test_each_helper_publishes_its_event(publisher: TrialPublisher, settings: Settings) -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    publisher.run_started(run_id="r", tasks=["t1"], attempts=2, started_at=start, labels={"team": "x"})
    publisher.trial(run_id="r", task_id="t1", agent="a", model="m", resolved=True, cost_usd=0.5, tier=None)
    publisher.retract(run_id="r", task_id="t1", agent="a", model="m", revision=3)
    publisher.run_finished(run_id="r", status="done")
    publisher.publish(EVENT.validate_python({"type": "run_finished", "run_id": "r2"}))
    assert publisher.flush(DEADLINE_SECONDS)
    found = {(event["type"], event["run_id"]): event for event in events(settings)}
    assert len(found) == 5
    assert found["run_started", "r"]["started_at"].startswith("2026-01-02T03:04:05")
    assert found["trial_result", "r"]["cost_usd"] == 0.5
    assert found["trial_retracted", "r"]["revision"] == 3
    assert found["run_finished", "r"]["status"] == "done"


@pytest.mark.parametrize(
    ("fields", "model", "named_apart"),
    [
        (TrialFields, TrialResult, {"type", "run_id", "task_id"}),
        (PlanFields, RunStarted, {"type", "run_id"}),
        (FinishFields, RunFinished, {"type", "run_id"}),
        (RetractionFields, TrialRetracted, {"type", "run_id", "task_id", "revision"}),
    ],
)
def test_the_helpers_take_every_field_of_their_event(fields: Any, model: Any, named_apart: set[str]) -> None:
    assert set(fields.__annotations__) == set(model.model_fields) - named_apart


def test_many_threads_may_publish_at_once(publisher: TrialPublisher, settings: Settings) -> None:
    def work(first: int) -> None:
        for number in range(first, 400, 4):
            publisher.trial(run_id=f"run {number % 7}", task_id=f"task-{number}")

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert publisher.flush(DEADLINE_SECONDS)
    assert arrived(settings) == dict.fromkeys(tasks(400), 1)
    counts = publisher.counts
    assert (counts.sent, counts.rejected, counts.pending, counts.files) == (400, 0, 0, ())


@pytest.mark.parametrize("wrong", [[1], "text", None, 7, b"{}"])
def test_what_is_neither_mapping_nor_model_fails_at_the_call(publisher: TrialPublisher, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"takes an event, a mapping or a model.*not"):
        publisher.publish(wrong)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"type": "trail_result"}, "unknown_type", "trail_result"),
        ({"task_id": ""}, "invalid_field", "task_id"),
        ({"resolved": "yes"}, "invalid_field", "resolved"),
        ({"attempt": None}, "invalid_field", "attempt"),
        ({"score": math.nan}, "not_finite", "'score' is not a finite number"),
        ({"benchmarks": {"b": {"agent/nop": [1.0, math.inf]}}}, "not_finite", "benchmarks.b.agent/nop.1"),
        ({"tests": {"status": "odd"}}, "invalid_field", "tests.status"),
        ({"finished_at": datetime(2026, 1, 1)}, "invalid_field", "RFC 3339 with a zone"),
        ({"trial_name": {1, 2}}, "not_json", "set"),
        ({"trial_name": "\ud800"}, "not_json", "surrogates"),
        ({"input_tokens": 2**70}, "not_json", "64-bit"),
        ({"trial_name": "x" * 2**20}, "too_large", "1,048,576 are allowed"),
    ],
)
def test_an_invalid_event_fails_at_the_call_with_what_is_wrong(
    publisher: TrialPublisher, settings: Settings, change: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(InvalidEvent, match=says) as caught:
        publisher.publish(a_trial() | change)
    assert caught.value.code == code
    publisher.publish(a_trial(task_id="the next one"))
    assert publisher.flush(DEADLINE_SECONDS)
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 1)
    assert [event["task_id"] for event in events(settings)] == ["the next one"]


def test_an_event_is_taken_as_it_is_at_the_call(publisher: TrialPublisher, settings: Settings) -> None:
    event = a_trial(task_id="before")
    publisher.publish(event)
    event["task_id"] = "after"
    assert publisher.flush(DEADLINE_SECONDS)
    assert [found["task_id"] for found in events(settings)] == ["before"]


def test_a_model_and_its_mapping_are_the_same_record() -> None:
    mapping = a_trial(tests={"status": "ok", "passed": 3}, extra="kept")
    model = EVENT.validate_python(mapping)
    assert checked(model) == checked(mapping)
    assert decode(checked(model).value) == model


def test_after_close_nothing_is_taken_and_closing_again_does_no_harm(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    publisher.publish(a_trial())
    assert publisher.close() == publisher.close()
    assert (publisher.counts.sent, publisher.counts.pending) == (1, 0)
    with pytest.raises(RuntimeError, match="closed"):
        publisher.publish(a_trial())
    assert list(tmp_path.iterdir()) == []


async def test_an_async_publisher_never_holds_up_its_loop(
    embedded_broker: str, namespace: str, tmp_path: Path
) -> None:
    settings = settings_of(embedded_broker, namespace)
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        for number in range(50):  # there are no topics yet
            publisher.trial(run_id="r", task_id=f"task-{number}")
        await ensure_topics(settings)
        assert await publisher.flush(DEADLINE_SECONDS)
    assert (await publisher.close()).sent == 50


AT_EXIT = """
import sys
from streamer.client import Settings, TrialPublisher
bootstrap, namespace, directory = sys.argv[1:]
settings = Settings(bootstrap=bootstrap, namespace=namespace, embedded=True)
publisher = TrialPublisher(settings, spill_dir=directory)
for number in range(20):
    publisher.trial(run_id="r", task_id=f"task-{number}")
"""


def test_a_process_that_ends_without_close_delivers_at_exit(settings: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", AT_EXIT, settings.bootstrap, settings.namespace]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(arrived(settings)) == tasks(20)


def test_in_a_forked_child_the_parents_publisher_refuses_and_a_new_one_works(
    publisher: TrialPublisher, settings: Settings, tmp_path: Path
) -> None:
    publisher.trial(run_id="r", task_id="task-0")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(RuntimeError, match="Make a new one in the child"):
                publisher.trial(run_id="r", task_id="never")
            with TrialPublisher(settings, spill_dir=tmp_path / "child") as fresh:
                fresh.trial(run_id="r", task_id="task-1")
            code = 0 if fresh.counts.sent == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    publisher.trial(run_id="r", task_id="task-2")
    assert publisher.flush(DEADLINE_SECONDS)
    assert set(arrived(settings)) == tasks(3)


def test_each_broker_and_namespace_has_a_spill_of_its_own(tmp_path: Path) -> None:
    def place(**fields: Any) -> Path:
        return spill_dir(Settings(data_dir=tmp_path, **fields))

    places = [
        place(bootstrap="a:9092"),
        place(bootstrap="b:9092"),
        place(bootstrap="a:9092", namespace="team"),
        place(bootstrap="a:9092", embedded=True),
    ]
    assert len(set(places)) == 4
    assert place(bootstrap="b:1", embedded=True) == places[3]
    assert {place.parent for place in places} == {tmp_path / "spill"}


def test_importing_the_client_imports_neither_broker_nor_store() -> None:
    code = (
        "import sys, streamer.client as c; c.Counts; sys.exit(bool({'aiokafka', 'redis'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_every_public_name_is_there_and_subscribe_stays_the_function() -> None:
    import streamer.client
    import streamer.client.subscribe  # the module must not take the place of the function

    missing = [name for name in streamer.client.__all__ if not hasattr(streamer.client, name)]
    assert missing == []
    assert callable(streamer.client.subscribe)
