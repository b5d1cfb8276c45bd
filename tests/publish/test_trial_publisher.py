"""A harness publishes: what it may say, what it is told, and that everything arrives."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from streamer.client import AsyncTrialPublisher, InvalidEvent, InvalidEvents, TrialPublisher
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.publish.capture import take
from streamer.publish.invalid_events import AnEvent
from streamer.publish.publisher import Outgoing
from streamer.publish.spill import REFUSED, spill_dir
from streamer.publish.validation import CHANGED, SLICE_ENTRIES, check
from streamer.schemas.decode import decode
from streamer.schemas.events import EVENT
from streamer.settings import Settings
from streamer.worker.process.topics import ensure_topics
from tests.publish import make_arguments
from tests.publish.publishing import arrived, make_topics, settings_of, tasks
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


def test_the_helpers_take_every_field_of_their_event() -> None:
    assert make_arguments.MODULE.read_text("utf-8") == make_arguments.module(), "run: make schema"


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


LARGE = {f"bench.{number}": {"agent/nop": 0.5, "oracle/nop": 0.25} for number in range(1_000)}


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
    assert [event["task_id"] for event in events(settings)] == ["the next one"]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"type": "trail_result"}, "unknown_type", "trail_result"),
        ({"task_id": ""}, "invalid_field", "task_id"),
        ({"resolved": "yes"}, "invalid_field", "resolved"),
        ({"attempt": None}, "invalid_field", "attempt"),
        ({"tests": {"status": "odd"}}, "invalid_field", "tests.status"),
        ({"finished_at": datetime(2026, 1, 1)}, "invalid_field", "RFC 3339 with a zone"),  # noqa: DTZ001
        ({"attempt": 0, "benchmarks": LARGE}, "invalid_field", "attempt"),
        (
            {"benchmarks": LARGE | {"b": {"agent/nop": [1.0, math.inf]}}},
            "not_finite",
            "benchmarks.b.agent/nop",
        ),
        ({"benchmarks": LARGE | {"b": {1, 2}}}, "not_json", "set"),
        ({"benchmarks": LARGE | {"b": {"agent/nop": "\ud800"}}}, "not_json", "surrogates"),
        ({"benchmarks": LARGE | {"b": "x" * 2**20}}, "too_large", "1,048,576 are allowed"),
        ({"benchmarks": dict.fromkeys(map(str, range(10_001)), 1.0)}, "invalid_field", "at most 10000 items"),
        ({"benchmarks": [LARGE]}, "invalid_field", "benchmarks"),
    ],
)
def test_an_invalid_event_is_told_of_put_aside_and_keeps_nothing_back(
    settings: Settings, tmp_path: Path, change: dict[str, Any], code: str, says: str
) -> None:
    told: list[InvalidEvent] = []
    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=told.append) as publisher:
        publisher.publish(a_trial(run_id="nightly", task_id="bad") | change)
        publisher.publish(a_trial(task_id="the next one"))
        assert publisher.flush(DEADLINE_SECONDS)
    assert [error.code for error in told] == [code]
    assert says in str(told[0])
    assert (told[0].run_id, told[0].task_id) == ("nightly", change.get("task_id", "bad"))
    assert publisher.invalid == tuple(told)
    assert (publisher.counts.sent, publisher.counts.rejected, publisher.counts.pending) == (1, 1, 0)
    assert [event["task_id"] for event in events(settings)] == ["the next one"]
    [aside] = (tmp_path / REFUSED).read_bytes().splitlines()
    assert orjson.loads(aside)["run_id"] == "nightly"


def test_closing_says_which_events_were_invalid_unless_somebody_was_told(
    settings: Settings, tmp_path: Path
) -> None:
    publisher = TrialPublisher(settings, spill_dir=tmp_path)
    for attempt in (0, 1, -1):
        publisher.trial(run_id="nightly", task_id="t1", attempt=attempt)
    with pytest.raises(
        InvalidEvents, match=r"^2 published events were invalid.*nightly.*'attempt'.*got 0"
    ) as told:
        publisher.close()
    assert told.value.count == len(told.value.first) == 2
    assert str(tmp_path / REFUSED) in str(told.value)
    assert publisher.close() == publisher.counts
    assert (publisher.counts.sent, publisher.counts.rejected) == (1, 2)


def test_invalid_events_do_not_hide_what_went_wrong_before(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TrialPublisher(settings, spill_dir=tmp_path) as publisher:  # noqa: PT012
        publisher.trial(run_id="nightly", task_id="t1", attempt=0)
        raise ZeroDivisionError


def test_a_callback_that_fails_stops_nothing(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: InvalidEvent) -> None:
        raise ZeroDivisionError

    with TrialPublisher(settings, spill_dir=tmp_path, on_invalid=fail) as publisher:
        publisher.trial(run_id="nightly", task_id="t1", attempt=0)
        publisher.trial(run_id="nightly", task_id="t1")
        assert publisher.flush(DEADLINE_SECONDS)
    assert publisher.counts.sent == 1
    assert "on_invalid failed" in caplog.text


def test_an_event_is_taken_as_it_is_at_the_call(publisher: TrialPublisher, settings: Settings) -> None:
    event = a_trial(
        task_id="before", tests={"status": "ok", "passed": 1}, benchmarks={"b": {"agent/nop": 0.5}}
    )
    publisher.publish(event)
    event["task_id"] = "after"
    event["tests"]["passed"] = 2
    event["benchmarks"]["b"]["agent/nop"] = 0.75
    assert publisher.flush(DEADLINE_SECONDS)
    [found] = events(settings)
    assert (found["task_id"], found["tests"]["passed"]) == ("before", 1)
    assert found["benchmarks"] == {"b": {"agent/nop": 0.5}}


def record_of(event: AnEvent) -> Outgoing:
    record = check(take(event))
    assert isinstance(record, Outgoing)
    return record


def test_many_benchmarks_arrive_as_they_were_handed_over(
    publisher: TrialPublisher, settings: Settings
) -> None:
    publisher.publish(a_trial(task_id="mapping", benchmarks=LARGE))
    publisher.publish(a_trial(task_id="proxy", benchmarks=MappingProxyType(LARGE)))
    publisher.publish(EVENT.validate_python(a_trial(task_id="model", benchmarks=LARGE)))
    assert publisher.flush(DEADLINE_SECONDS)
    found = {event["task_id"]: event for event in events(settings)}
    assert found.keys() == {"mapping", "proxy", "model"}
    assert all(event["benchmarks"] == LARGE for event in found.values())
    value = record_of(a_trial(benchmarks=LARGE)).value
    assert decode(value) == EVENT.validate_python(a_trial(benchmarks=LARGE))


@pytest.mark.parametrize(
    "change",
    [
        lambda benchmarks: benchmarks.clear(),
        lambda benchmarks: benchmarks.update(more={}),
        lambda benchmarks: benchmarks.update({name: dict(entry) for name, entry in LARGE.items()}),
    ],
)
def test_benchmarks_that_are_filled_anew_for_the_next_event_are_noticed(
    change: Callable[[dict[str, Any]], None],
) -> None:
    """A harness that uses one dictionary for all its trials must not send those of another trial."""
    benchmarks = dict(LARGE)
    taken = take(a_trial(benchmarks=benchmarks))
    change(benchmarks)
    assert check(taken) is CHANGED


def test_other_threads_may_run_between_slices_of_a_large_event() -> None:
    pauses: list[None] = []
    check(take(a_trial(benchmarks=LARGE)), lambda: pauses.append(None))
    assert len(pauses) == -(-len(LARGE) // SLICE_ENTRIES)


@pytest.mark.parametrize("benchmarks", [None, {}, dict(list(LARGE.items())[:64]), LARGE])
def test_a_model_and_its_mapping_are_the_same_record(benchmarks: dict[str, Any] | None) -> None:
    mapping = a_trial(tests={"status": "ok", "passed": 3}, extra="kept", benchmarks=benchmarks)
    model = EVENT.validate_python(mapping)
    assert record_of(model) == record_of(mapping)
    assert decode(record_of(model).value) == model


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


def test_every_public_name_is_there_and_subscribe_is_the_function() -> None:
    import streamer.client

    missing = [name for name in streamer.client.__all__ if not hasattr(streamer.client, name)]
    assert missing == []
    assert callable(streamer.client.subscribe)
