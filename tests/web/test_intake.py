"""Events that come by HTTP: read as they were written, judged as the worker judges, published or refused."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.errors import InvalidTimestampError, MessageSizeTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from streamer.client import StateReader
from streamer.folding.fold import Pipeline
from streamer.operate.health import read_rejections
from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import Names, administering, create_topic, partition_count, partition_of
from streamer.storage.log import read_topic
from streamer.storage.outbox import NotStored, Outgoing
from streamer.web.models import RETRY_SECONDS
from streamer.web.protocols import intake as event_intake
from streamer.web.protocols.intake import MAX_BODY_BYTES, MAX_EVENT_BYTES, BodyKind, EventIntake, read_events
from tests.client.publish.publishing import PARTITIONS, arrived, make_topics
from tests.house.repository import ROOT
from tests.support.events import a_trial
from tests.support.servers import pause
from tests.support.worker_process import WorkerProcess, wait_for
from tests.web.serving import Answer, Serving

TEXTS = st.text(st.sampled_from('ab"\\[]{},: \n\u00e9\U0001f600'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
EVENTS = st.sampled_from(
    [
        b'{"type": "trial_result", "run_id": "r", "task_id": "t"}',
        b'{"type": "trial_result", "run_id": "r"}',
        b'{"type": "run_started", "run_id": "r", "grading_profile": "none-such"}',
        b'{"type": "run_started", "run_id": "r", "tasks": 2}',
        b'{"type": "trial_result", "run_id": "r", "task_id": "t", "cost_usd": -1}',
        b'{"type": "run_finished", "run_id": "\xff"}',
        *(b"[]", b"7"),
    ]
)


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 2]), st.booleans())
def test_elements_of_arrays_stay_as_written(values: list[object], indent: int | None, escaped: bool) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=escaped).encode()
    read = read_events(BodyKind.JSON, body)
    assert [json.loads(record.value) for record in read.records] == values
    assert b"".join(record.value for record in read.records) in body or len(values) > 1
    assert all(record.value in body for record in read.records)


@given(st.lists(EVENTS, max_size=8))
def test_what_is_named_as_rejected_is_what_the_worker_rejects(lines: list[bytes]) -> None:
    read = read_events(BodyKind.LINES, b"\n".join(lines))
    folded = Pipeline().fold([Record(record.value, number) for number, record in enumerate(read.records, 1)])
    worker = [json.loads(rejected.value) for rejected in folded.rejections]
    told = [(one.number, one.code, one.message) for one in read.answer.rejections]
    assert told == [(one["source_offset"], one["code"], one["message"]) for one in worker]
    assert (read.answer.accepted, read.answer.rejected) == (len(lines) - len(worker), len(worker))
    assert [record.value for record in read.records] == lines


@given(
    st.sampled_from(BodyKind),
    st.binary(max_size=60) | st.text(st.sampled_from('[]{}",:\\ 0a\n')).map(str.encode),
)
def test_any_bytes_are_read_or_refused_and_nothing_is_lost(kind: BodyKind, body: bytes) -> None:
    try:
        read = read_events(kind, body)
    except event_intake.UnreadableBody:
        assert kind is BodyKind.JSON
        return
    assert read.answer.accepted + read.answer.rejected == len(read.records)
    if kind is BodyKind.LINES:
        lines = [line.strip() for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [record.value for record in read.records] == [line for line in lines if line]


def test_an_event_has_its_run_as_key_and_an_invalid_one_has_none() -> None:
    read = read_events(
        BodyKind.LINES, b'{"type": "run_finished", "run_id": "r\\u00e9"}\n{"type": "x", "run_id": "r"}'
    )
    assert [record.key for record in read.records] == ["ré".encode(), None]


def test_unknown_fields_and_times_without_a_zone_are_in_the_answer() -> None:
    trial = {"type": "trial_result", "run_id": "r", "resolvd": True, "finished_at": "2026-01-31T09:30:00"}
    lines = [json.dumps(trial | {"task_id": f"t{at}"}).encode() for at in range(3)]
    answer = read_events(BodyKind.LINES, b"\n".join(lines)).answer
    assert (answer.accepted, answer.ignored) == (3, {"resolvd": 3})
    [remark] = answer.remarks
    assert remark.startswith("Run 'r': 3 times without a zone")


def test_blank_lines_count_as_lines_but_not_as_events() -> None:
    read = read_events(BodyKind.LINES, b"\xef\xbb\xbf\n \r\n7\r\n\n")
    assert [(one.number, one.code) for one in read.answer.rejections] == [(3, "not_an_object")]


@pytest.mark.parametrize(
    ("kind", "most", "one_more"),
    [(BodyKind.LINES, b"0\n" * 1000, b"0"), (BodyKind.JSON, b"[0" + b",0" * 999, b",0")],
)
def test_there_is_a_limit_to_the_number_of_events(
    kind: BodyKind, most: bytes, one_more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "MAX_EVENTS", 1000)
    end = b"]" if kind is BodyKind.JSON else b""
    assert read_events(kind, most + end).answer.rejected == 1000
    with pytest.raises(event_intake.BodyTooLarge, match="more than 1,000 events"):
        read_events(kind, most + one_more + end)


# -----------------------------------------------------------------------------
# Bodies wait for the broker in limited memory; a broker that is away is said, and found again.


def at_broker(settings: Settings, broker: Broker) -> Settings:
    where = {"bootstrap": broker.bootstrap, "embedded": True, "partitions": PARTITIONS}
    return settings.model_copy(update=where)


@pytest.fixture
def own(own_broker: Broker, settings: Settings) -> Settings:
    return make_topics(at_broker(settings, own_broker))


@pytest.fixture
def on_kafka(kafka_bootstrap: str, settings: Settings) -> Settings:
    return settings.model_copy(update={"bootstrap": kafka_bootstrap, "partitions": PARTITIONS})


def events_of(settings: Settings) -> str:
    """The topic of events."""
    return Names(settings.namespace).trial_events


def body_of(number: int, size: int = 0) -> bytes:
    """One event, and blank lines up to a size."""
    event = json.dumps(a_trial(task_id=f"task-{number}")).encode()
    return event + b"\n" * max(1, size - len(event))


def said(answer: Answer) -> tuple[int, str | None, str]:
    """Status, the time to come again, and why."""
    return answer.status, answer.headers.get("retry-after"), answer.json()["detail"]


def create(settings: Settings, limits: dict[str, str]) -> None:
    """The event topic, with lower limits than ours."""

    async def creating() -> None:
        async with administering(settings) as admin:
            await create_topic(admin, events_of(settings), PARTITIONS, 1, limits)
            await partition_count(admin, events_of(settings))

    asyncio.run(creating())


def test_a_slow_broker_limits_memory_and_the_rest_must_come_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 120.0)
    with Serving(own) as serving, ThreadPoolExecutor(4) as threads:
        assert serving.post(body_of(0)).status == 200
        pause(own_broker.child.pid)
        waiting = [threads.submit(serving.post, body_of(number, MAX_BODY_BYTES)) for number in range(1, 5)]
        pending = serving.web.intake
        wait_for(
            lambda: pending.pending_bytes == event_intake.MAX_PENDING_BYTES,
            "four whole bodies fill the memory",
        )
        status, again, why = said(serving.post(body_of(5)))
        assert (status, again, "64 MiB" in why) == (429, "2", True)
        assert serving.get("/api/runs").status == 200
        own_broker.child.signal(signal.SIGCONT)
        assert [future.result().status for future in waiting] == [200] * 4
        assert serving.post(body_of(6)).status == 200
    assert set(arrived(own)) == {f"task-{number}" for number in (0, 1, 2, 3, 4, 6)}


def test_a_broker_that_does_not_acknowledge_in_time_is_a_503_and_found_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 1.0)
    with Serving(own) as serving:
        assert serving.post(body_of(0)).status == 200
        pause(own_broker.child.pid)
        status, again, why = said(serving.post(body_of(1)))
        assert (status, again, "no acknowledgement within 1 s" in why) == (503, "2", True)
        assert "Send the same body again" in why
        own_broker.child.signal(signal.SIGCONT)
        wait_for(lambda: serving.post(body_of(1)).status == 200, "the broker is found again")
        assert serving.web.intake.pending_bytes == 0
    assert set(arrived(own)) == {"task-0", "task-1"}


def test_without_a_broker_every_body_is_a_503_until_there_is_one(settings: Settings) -> None:
    broker = Broker()
    settings = at_broker(settings, broker)
    with Serving(settings) as serving:
        status, again, why = said(serving.post(body_of(0)))
        assert (status, again, broker.bootstrap in why) == (503, "2", True)
        with broker:
            status, _, why = said(serving.post(body_of(0)))
            assert (status, "does not exist" in why) == (503, True)
            make_topics(settings)
            assert serving.post(body_of(0)).status == 200
            assert set(arrived(settings)) == {"task-0"}


def test_a_client_that_leaves_early_frees_its_room(own: Settings, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with Serving(own) as serving:
        with socket.create_connection(("127.0.0.1", serving.port)) as half:
            half.sendall(head + b"Content-Length: 1000\r\n\r\n" + body_of(0))
            wait_for(lambda: serving.web.intake.pending_bytes == 1000, "there is room for the body")
        wait_for(lambda: serving.web.intake.pending_bytes == 0, "the room is free again")
    assert caplog.text == ""
    assert set(arrived(own)) == set()


async def test_few_bodies_are_on_their_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No body times out behind others."""
    on_their_way, most, stored = 0, 0, list[Outgoing]()

    async def publish(records: list[Outgoing], patience_seconds: float) -> list[int]:
        nonlocal on_their_way, most
        on_their_way += 1
        most = max(most, on_their_way)
        await asyncio.sleep(0)
        stored.extend(records)
        on_their_way -= 1
        return list(range(len(records)))

    link = SimpleNamespace(broken=False, start=AsyncMock(), stop=AsyncMock(), publish=publish)
    monkeypatch.setattr(event_intake, "EventOutbox", lambda settings: link)
    intake = EventIntake(Settings())
    bodies = [[Outgoing(b"%d" % run, b"%d" % n) for n in range(3)] for run in range(50)]
    await asyncio.gather(*(intake.publish(body) for body in bodies))
    assert most == event_intake.MAX_BODIES
    for body in bodies:
        assert [record for record in stored if record.key == body[0].key] == body
    await intake.close()


@pytest.mark.kafka
def test_an_event_that_the_broker_refuses_for_its_size_is_a_413(on_kafka: Settings) -> None:
    create(on_kafka, {"max.message.bytes": "2000"})
    with Serving(on_kafka) as serving:
        assert serving.post(body_of(0)).status == 200
        status, _, why = said(
            serving.post(os.urandom(4000).hex().encode())
        )  # does not compress below the limit
        assert (status, "max.message.bytes" in why) == (413, True)


@pytest.mark.kafka
def test_events_that_the_broker_refuses_for_good_are_a_422_for_good(on_kafka: Settings) -> None:
    create(on_kafka, {"message.timestamp.before.max.ms": "0"})  # the first is older when all are packed
    with Serving(on_kafka) as serving:
        status, again, why = said(serving.post(body_of(0) * 4_000))
    assert (status, again, "Compare the clocks" in why) == (422, None, True)


@pytest.mark.parametrize("refused", [MessageSizeTooLargeError(), InvalidTimestampError()])
async def test_where_some_events_may_be_sent_again_the_whole_body_may(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, refused: Exception
) -> None:
    """Whatever was refused comes first: duplicates do not count."""
    link = SimpleNamespace(broken=False, publish=AsyncMock(return_value=[0, NotStored(refused)]))
    intake = EventIntake(settings)
    monkeypatch.setattr(intake, "_connected", AsyncMock(return_value=link))
    with pytest.raises((event_intake.RefusedForSize, event_intake.RefusedForGood)):
        await intake.publish([])
    link.publish.return_value.append(NotStored(TimeoutError("no acknowledgement")))
    with pytest.raises(event_intake.NotPublished, match="no acknowledgement"):
        await intake.publish([])


# -----------------------------------------------------------------------------
# docs/http.md says what is the case: its curl line and its Python are run against a real server.


TEXT = (ROOT / "docs" / "http.md").read_text("utf-8")
CLASS, USE = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
CURL = next(line for line in TEXT.splitlines() if line.startswith("curl"))
DOCUMENTED = "http://127.0.0.1:8720"


def an_object(url: str, file: Path, **options: Any) -> Any:
    """An object of the page's class."""
    names: dict[str, Any] = {}
    exec(compile(CLASS, "docs/http.md", "exec"), names)
    return names["Events"](url, str(file), **options)


def trial(number: int, **fields: Any) -> dict[str, Any]:
    return a_trial(task_id=f"task-{number}", **fields)


def counted(last: int) -> dict[str, int]:
    """Each of so many tasks once."""
    return {f"task-{number}": 1 for number in range(last)}


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    return tmp_path / "spill.ndjson"


def test_the_curl_line_publishes(topics: Settings, publishing: Serving, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("SKIPPED LOUDLY: there is no curl, so the line of docs/http.md was not run. Install it")
    (tmp_path / "events.ndjson").write_text("\n".join(json.dumps(trial(number)) for number in range(3)))
    assert CURL.count(DOCUMENTED) == 1
    command = CURL.replace(DOCUMENTED, publishing.url)
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout in TEXT) == (0, "", True)
    assert arrived(topics) == counted(3)


def test_the_python_runs_alone(topics: Settings, publishing: Serving, tmp_path: Path, spill: Path) -> None:
    program = (CLASS + USE).replace(DOCUMENTED, publishing.url)
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", program]  # the standard library alone
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert arrived(topics) == {"fix-git": 1}
    assert spill.read_bytes() == b""


def test_while_the_server_is_away_events_wait_in_the_file(topics: Settings, spill: Path) -> None:
    port = free_port()
    events = an_object(f"http://127.0.0.1:{port}", spill)
    with Serving(topics, port):
        events.publish(trial(0))
        assert spill.read_bytes() == b""
    for number in range(1, 400):
        events.publish(trial(number))
    assert len(spill.read_text().split()) >= 399
    assert events.send() is False
    assert arrived(topics) == counted(1)
    with Serving(topics, port):
        assert events.send() is True
    assert spill.read_bytes() == b""
    assert arrived(topics) == counted(400)


def test_a_server_that_ends_unanswered_costs_no_event(own: Settings, own_broker: Broker, spill: Path) -> None:
    port = free_port()
    events = an_object(f"http://127.0.0.1:{port}", spill)
    with Serving(own, port) as serving, ThreadPoolExecutor(1) as thread:
        events.publish(trial(0))
        pause(own_broker.child.pid)
        events.due = 0  # as if a second had passed since the last batch
        publishing = thread.submit(events.publish, trial(1))
        wait_for(lambda: serving.web.intake.pending_bytes > 0, "the server waits for the broker")
        serving.stop()
        publishing.result()
        own_broker.child.signal(signal.SIGCONT)
    assert json.loads(spill.read_bytes())["task_id"] == "task-1"
    with Serving(own, port):
        wait_for(events.send, "everything is acknowledged")
    assert set(arrived(own)) == {"task-0", "task-1"}


def test_the_next_process_sends_what_the_last_one_left_half_lines_too(
    topics: Settings, publishing: Serving, spill: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    an_object(f"http://127.0.0.1:{free_port()}", spill).publish(trial(0))
    with spill.open("a") as left:
        left.write('\n{"type": "trial_res')
    events = an_object(publishing.url, spill)
    events.publish(trial(1))
    assert events.send() is True
    assert capsys.readouterr().out.startswith("rejected: not_json")
    result = read_topic(topics, events_of(topics))
    assert sorted(record.key or b"-" for record in result) == [b"-", b"run-1", b"run-1"]


def test_it_waits_as_long_as_the_server_asks_for(serving: Serving, spill: Path) -> None:
    """The server has no broker."""
    events = an_object(serving.url, spill)
    events.publish(trial(0))
    assert 0 < events.due - time.monotonic() <= RETRY_SECONDS
    assert json.loads(spill.read_bytes())["task_id"] == "task-0"


def test_many_events_go_in_batches_and_none_twice(topics: Settings, publishing: Serving, spill: Path) -> None:
    lines = [json.dumps(trial(number, trial_name="x" * 1000)) for number in range(3_000)]
    spill.write_text("\n".join(lines))
    assert an_object(publishing.url, spill).send() is True
    assert arrived(topics) == counted(3_000)


def test_a_refusal_that_will_not_pass_is_raised_and_keeps_the_events(topics: Settings, spill: Path) -> None:
    with Serving(topics, publish_token="staple-correct-horse") as serving:
        with pytest.raises(RuntimeError, match="publishing token is needed"):
            an_object(serving.url, spill, token="wrong").publish(trial(0))
        assert json.loads(spill.read_bytes())["task_id"] == "task-0"
        assert an_object(serving.url, spill, token="staple-correct-horse").send() is True
    assert arrived(topics) == counted(1)


def test_the_python_has_thirty_lines_and_the_limits_on_the_page_are_those_of_the_code() -> None:
    assert len(CLASS.splitlines()) <= 30
    body, event, waiting = (
        most // 2**20 for most in (MAX_BODY_BYTES, MAX_EVENT_BYTES, event_intake.MAX_PENDING_BYTES)
    )
    assert f"Limits: {body} MiB, {event_intake.MAX_EVENTS:,} events, and {event} MiB per event" in TEXT
    assert f"{waiting} MiB of events are waiting" in TEXT


# -----------------------------------------------------------------------------
# Events that come by HTTP: what lands in the log, what the client learns, and what is refused.

NOT_JSON = b'{"type": "trial_result", "run_id": "run-1"'
NO_TASK = b'{"type":  "trial_result", "run_id": "run-1", "note": "\xc3\xa9"}'
NOT_UTF8 = b'{"type": "run_finished", "run_id": "\xff"}'
NO_PROFILE = b'{"type": "run_started", "run_id": "run-1", "grading_profile": "none-such"}'
NO_RUN = b'{"type": "trial_result", "task_id": "t", "agent": "\xe2\x80\xae\x1b[31m"}'


def event_line(**fields: Any) -> bytes:
    return json.dumps(a_trial(**fields)).encode()


def in_the_log(settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of each event, partition by partition."""
    return [(one.key, one.value) for one in read_topic(settings, events_of(settings))]


def test_acknowledged_events_are_in_order_in_their_partition(topics: Settings, publishing: Serving) -> None:
    lines = [event_line(run_id=f"run-{n % 3}", task_id=f"t{n}") for n in range(300)]
    answer = publishing.post(b"\r\n".join(lines))
    said = {"accepted": 300, "rejected": 0, "rejections": [], "ignored": {}, "remarks": []}
    assert (answer.status, answer.json()) == (200, said)
    result = list(read_topic(topics, events_of(topics)))
    for run in ("run-0", "run-1", "run-2"):
        of_run = [one for one in result if one.key == run.encode()]
        assert [one.value for one in of_run] == [value for value in lines if run.encode() in value]
        assert {one.partition for one in of_run} == {partition_of(run, PARTITIONS)}


def test_an_array_is_published_as_written_and_an_object_is_one(topics: Settings, publishing: Serving) -> None:
    lines, array = "application/x-ndjson", "application/json"
    first, second = event_line(task_id="a, b]"), b'{ "type":"run_finished",  "run_id":"run-1" }'
    for body, kind, events in (
        *((b"", lines, 0), (b"\n\n", lines, 0), (b"[]", array, 0)),
        (b" [" + first + b" ,\n" + second + b"] ", "application/json; charset=UTF-8", 2),
        (event_line(), array, 1),
    ):
        answer = publishing.post(body, kind)
        assert (answer.status, answer.json()["accepted"]) == (200, events), (body, kind)
    assert in_the_log(topics) == [(b"run-1", value) for value in (first, second, event_line())]


def test_invalid_lines_are_named_and_kept(topics: Settings, publishing: Serving, tmp_path: Path) -> None:
    invalid = [NOT_JSON, NO_TASK, NOT_UTF8, NO_PROFILE, NO_RUN, b"[]", b"x" * MAX_EVENT_BYTES]
    body = b"\n".join([event_line(), *invalid, b"", event_line(task_id="task-2", revision=1)])
    with WorkerProcess(tmp_path, of_worker(topics)) as worker:
        worker.start()
        answer = publishing.post(body)
        told = answer.json()
        assert (answer.status, told["accepted"], told["rejected"]) == (200, 2, len(invalid))
        assert [one["number"] for one in told["rejections"]] == list(range(2, 2 + len(invalid)))
        wait_for(lambda: len(list(read_rejections(topics))) == len(invalid), "all are rejected")
        rejections = {one.original: one.message for one in read_rejections(topics)}
        for number, value in enumerate(invalid):
            stored, said = rejections[value], told["rejections"][number]
            assert (stored.code, stored.message) == (said["code"], said["message"])
            assert base64.b64decode(stored.source_value_base64 or "") == value
        with StateReader(topics) as reader:
            assert reader.wait_for("run-1", lambda run: run.trials == 2, timeout_seconds=60).trials == 2


def of_worker(settings: Settings) -> dict[str, object]:
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    return {name: getattr(settings, name) for name in names} | {"session_timeout_seconds": 3.0}


def test_only_the_first_hundred_rejections_are_named_and_all_are_counted(publishing: Serving) -> None:
    told = publishing.post(b"x\n" * 250).json()
    assert (told["accepted"], told["rejected"], len(told["rejections"])) == (0, 250, 100)


JSON = {"kind": "application/json"}
LINES_ARE_TAKEN = "application/x-ndjson"
REFUSED: list[tuple[int, bytes, dict[str, Any], str]] = [
    (400, b"", JSON, "truncated"),
    (400, b"[{}", JSON, "truncated"),
    (400, b"[{}]]", JSON, "trailing characters"),
    (400, b'{"a": NaN}', JSON, "malformed"),
    (400, b"7", JSON, "it is b'7'"),
    (400, b"[" * 100_000, JSON, "nests too deeply"),
    (400, b"", JSON, LINES_ARE_TAKEN),
    (413, b"", {"content_length": str(MAX_BODY_BYTES + 1)}, "16,777,216"),
    (413, event_line() + b"\n" + b"x" * (2 * 1024 * 1024 + 1), {}, "Event 2 has 2,097,153 bytes"),
    (415, event_line(), {"kind": "text/plain"}, LINES_ARE_TAKEN),
    (415, event_line(), {"kind": "application/x-www-form-urlencoded"}, LINES_ARE_TAKEN),
    (415, event_line(), {"kind": "multipart/form-data; boundary=x"}, LINES_ARE_TAKEN),
    (415, event_line(), {"kind": ""}, LINES_ARE_TAKEN),
    (415, event_line(), {"kind": "application/json; charset=latin-1"}, LINES_ARE_TAKEN),
    (415, event_line(), {"content_encoding": "gzip"}, LINES_ARE_TAKEN),
]


def test_a_body_that_cannot_be_read_is_refused_as_a_whole(topics: Settings, publishing: Serving) -> None:
    """As JSON, by its size as it is said, by the size of an event, by its media type, or compressed."""
    for status, body, sent, says in REFUSED:
        answer = publishing.post(body, **sent)
        kind = answer.headers["content-type"]
        assert (answer.status, kind) == (status, "application/problem+json"), (body[:40], sent)
        assert says in answer.json()["detail"], (body[:40], sent)
    assert in_the_log(topics) == []


def chunked(publishing: Serving, *parts: bytes) -> Answer:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    headers: dict[str, Any] = {"content_type": "application/x-ndjson", "transfer_encoding": "chunked"}
    return publishing.get("/api/events", method="POST", body=body, **headers)


def test_a_chunked_body_is_read_unless_it_is_too_large(topics: Settings, publishing: Serving) -> None:
    assert chunked(publishing, *[b"\n" * 1_000_000] * 20).status == 413
    assert in_the_log(topics) == []
    assert chunked(publishing, event_line()[:20], event_line()[20:]).json()["accepted"] == 1
    assert in_the_log(topics) == [(b"run-1", event_line())]


def test_a_body_of_the_full_size_is_published(topics: Settings, publishing: Serving) -> None:
    lines = b"\n".join(event_line(task_id=f"t{number}", trial_name="x" * 1000) for number in range(14_500))
    assert MAX_BODY_BYTES * 0.95 < len(lines) <= MAX_BODY_BYTES
    assert publishing.post(lines).json()["accepted"] == 14_500
    assert sum(1 for _ in read_topic(topics, events_of(topics))) == 14_500
