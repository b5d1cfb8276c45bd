"""The events in a body: every element as it was written, and the worker's own judgement of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.errors import InvalidTimestampError, MessageSizeTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import Names, administering, create_topic, partition_count
from streamer.storage.log import read_topic
from streamer.storage.outbox import NotStored, Outgoing
from streamer.web.models import RETRY_SECONDS
from streamer.web.protocols import intake as event_intake
from streamer.web.protocols.intake import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_PENDING_BYTES,
    BodyKind,
    BodyTooLarge,
    EventIntake,
    NotPublished,
    RefusedForGood,
    RefusedForSize,
    UnreadableBody,
    read_events,
)
from tests.client.publish.publishing import PARTITIONS, arrived, make_topics
from tests.house.repository import ROOT
from tests.support.events import a_trial
from tests.support.servers import pause
from tests.support.worker_process import wait_for
from tests.web.serving import Serving

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
def test_the_elements_of_an_array_are_found_as_they_were_written(
    values: list[object], indent: int | None, escaped: bool
) -> None:
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
    except UnreadableBody:
        assert kind is BodyKind.JSON
        return
    assert read.answer.accepted + read.answer.rejected == len(read.records)
    if kind is BodyKind.LINES:
        lines = [line.strip() for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [record.value for record in read.records] == [line for line in lines if line]


def test_an_event_has_its_run_as_key_and_an_invalid_one_has_none() -> None:
    event, none = b'{"type": "run_finished", "run_id": "r\\u00e9"}', b'{"type": "x", "run_id": "r"}'
    read = read_events(BodyKind.LINES, event + b"\n" + none)
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
    with pytest.raises(BodyTooLarge, match="more than 1,000 events"):
        read_events(kind, most + one_more + end)


# -----------------------------------------------------------------------------
# Bodies wait for the broker in limited memory; a broker that is away is said, and found again.


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def own(own_broker: Broker, settings: Settings) -> Settings:
    where = {"bootstrap": own_broker.bootstrap, "embedded": True, "partitions": PARTITIONS}
    return make_topics(settings.model_copy(update=where))


@pytest.fixture
def on_kafka(kafka_bootstrap: str, settings: Settings) -> Settings:
    return settings.model_copy(update={"bootstrap": kafka_bootstrap, "partitions": PARTITIONS})


def body_of(number: int, size: int = 0) -> bytes:
    """One event, and blank lines up to a size."""
    event = json.dumps(a_trial(task_id=f"task-{number}")).encode()
    return event + b"\n" * max(1, size - len(event))


def tasks(settings: Settings) -> set[str]:
    records = read_topic(settings, Names(settings.namespace).trial_events)
    return {json.loads(record.value or b"")["task_id"] for record in records}


def create(settings: Settings, limits: dict[str, str]) -> None:
    """The event topic, with lower limits than ours."""

    async def creating() -> None:
        async with administering(settings) as admin:
            name = Names(settings.namespace).trial_events
            await create_topic(admin, name, PARTITIONS, 1, limits)
            await partition_count(admin, name)

    asyncio.run(creating())


def test_while_the_broker_is_slow_memory_is_limited_and_the_rest_is_told_to_come_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 120.0)
    with Serving(own) as serving, ThreadPoolExecutor(4) as threads:
        assert serving.post(body_of(0)).status == 200
        pause(own_broker.child.pid)
        waiting = [threads.submit(serving.post, body_of(number, MAX_BODY_BYTES)) for number in range(1, 5)]
        pending = serving.web.intake
        wait_for(lambda: pending.pending_bytes == MAX_PENDING_BYTES, "four whole bodies fill the memory")
        refused = serving.post(body_of(5))
        assert (refused.status, refused.headers["retry-after"]) == (429, "2")
        assert "64 MiB" in refused.json()["detail"]
        assert serving.get("/api/runs").status == 200
        own_broker.child.signal(signal.SIGCONT)
        assert [future.result().status for future in waiting] == [200] * 4
        assert serving.post(body_of(6)).status == 200
    assert tasks(own) == {f"task-{number}" for number in (0, 1, 2, 3, 4, 6)}


def test_a_broker_that_does_not_acknowledge_in_time_is_a_503_and_the_next_body_finds_it_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 1.0)
    with Serving(own) as serving:
        assert serving.post(body_of(0)).status == 200
        pause(own_broker.child.pid)
        answer = serving.post(body_of(1))
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert "no acknowledgement within 1 s" in answer.json()["detail"]
        assert "Send the same body again" in answer.json()["detail"]
        own_broker.child.signal(signal.SIGCONT)
        wait_for(lambda: serving.post(body_of(1)).status == 200, "the broker is found again")
        assert serving.web.intake.pending_bytes == 0
    assert tasks(own) == {"task-0", "task-1"}


def test_without_a_broker_every_body_is_a_503_until_there_is_one(settings: Settings) -> None:
    broker = Broker()
    where = {"bootstrap": broker.bootstrap, "embedded": True, "partitions": PARTITIONS}
    settings = settings.model_copy(update=where)
    with Serving(settings) as serving:
        answer = serving.post(body_of(0))
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert broker.bootstrap in answer.json()["detail"]
        with broker:
            answer = serving.post(body_of(0))
            assert (answer.status, "does not exist" in answer.json()["detail"]) == (503, True)
            make_topics(settings)
            assert serving.post(body_of(0)).status == 200
            assert tasks(settings) == {"task-0"}


def test_a_client_that_leaves_before_the_end_of_its_body_gives_its_room_back(
    own: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with Serving(own) as serving:
        with socket.create_connection(("127.0.0.1", serving.port)) as half:
            half.sendall(head + b"Content-Length: 1000\r\n\r\n" + body_of(0))
            wait_for(lambda: serving.web.intake.pending_bytes == 1000, "there is room for the body")
        wait_for(lambda: serving.web.intake.pending_bytes == 0, "the room is free again")
    assert caplog.text == ""
    assert tasks(own) == set()


class SlowLink:
    """In place of a connection: counts the bodies that are on their way."""

    now = most = 0
    broken = False

    def __init__(self, settings: Settings) -> None:
        self.records: list[Outgoing] = []

    async def start(self) -> None: ...

    async def publish(self, records: list[Outgoing], patience_seconds: float) -> list[int]:
        SlowLink.now += 1
        SlowLink.most = max(SlowLink.most, SlowLink.now)
        await asyncio.sleep(0)
        self.records += records
        SlowLink.now -= 1
        return list(range(len(records)))

    async def stop(self) -> None: ...


async def test_few_bodies_are_on_their_way_at_once_so_that_none_times_out_behind_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_intake, "EventOutbox", SlowLink)
    intake = EventIntake(Settings())
    bodies = [[Outgoing(b"%d" % run, b"%d" % n) for n in range(3)] for run in range(50)]
    await asyncio.gather(*(intake.publish(body) for body in bodies))
    assert SlowLink.most == event_intake.MAX_BODIES
    link = await intake._connected()
    assert isinstance(link, SlowLink)
    for body in bodies:
        assert [record for record in link.records if record.key == body[0].key] == body
    await intake.close()


@pytest.mark.kafka
def test_an_event_that_the_broker_refuses_for_its_size_is_a_413(on_kafka: Settings) -> None:
    create(on_kafka, {"max.message.bytes": "2000"})
    with Serving(on_kafka) as serving:
        assert serving.post(body_of(0)).status == 200
        answer = serving.post(os.urandom(4000).hex().encode())  # does not compress below the limit
        assert (answer.status, "max.message.bytes" in answer.json()["detail"]) == (413, True)


@pytest.mark.kafka
def test_events_that_the_broker_refuses_for_good_are_a_422_without_a_time_to_come_again(
    on_kafka: Settings,
) -> None:
    create(on_kafka, {"message.timestamp.before.max.ms": "0"})  # the first is older when all are packed
    with Serving(on_kafka) as serving:
        answer = serving.post(body_of(0) * 4_000)
    assert (answer.status, answer.headers.get("retry-after")) == (422, None)
    assert "Compare the clocks" in answer.json()["detail"]


@pytest.mark.parametrize("refused", [MessageSizeTooLargeError(), InvalidTimestampError()])
async def test_where_some_events_may_be_sent_again_the_whole_body_may(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, refused: Exception
) -> None:
    """Whatever was refused comes first: duplicates do not count."""
    link = SimpleNamespace(broken=False, publish=AsyncMock(return_value=[0, NotStored(refused)]))
    intake = EventIntake(settings)
    monkeypatch.setattr(intake, "_connected", AsyncMock(return_value=link))
    with pytest.raises((RefusedForSize, RefusedForGood)):
        await intake.publish([])
    link.publish.return_value.append(NotStored(TimeoutError("no acknowledgement")))
    with pytest.raises(NotPublished, match="no acknowledgement"):
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


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    return tmp_path / "spill.ndjson"


def test_the_curl_line_publishes(topics: Settings, publishing: Serving, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("SKIPPED LOUDLY: there is no curl, so the line of docs/http.md was not run. Install it")
    lines = [json.dumps(trial(number)) for number in range(3)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    assert CURL.count(DOCUMENTED) == 1
    command = CURL.replace(DOCUMENTED, publishing.url)
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in TEXT
    assert arrived(topics) == {"task-0": 1, "task-1": 1, "task-2": 1}


def test_the_python_runs_as_a_program_of_its_own(
    topics: Settings, publishing: Serving, tmp_path: Path, spill: Path
) -> None:
    program = (CLASS + USE).replace(DOCUMENTED, publishing.url)
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", program]  # the standard library alone
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert arrived(topics) == {"fix-git": 1}
    assert spill.read_bytes() == b""


def test_while_the_server_is_away_events_wait_in_the_file_and_are_sent_afterwards(
    topics: Settings, spill: Path
) -> None:
    port = free_port()
    events = an_object(f"http://127.0.0.1:{port}", spill)
    with Serving(topics, port):
        events.publish(trial(0))
        assert spill.read_bytes() == b""
    for number in range(1, 400):
        events.publish(trial(number))
    assert len(spill.read_text().split()) >= 399
    assert events.send() is False
    assert arrived(topics) == {"task-0": 1}
    with Serving(topics, port):
        assert events.send() is True
    assert spill.read_bytes() == b""
    assert arrived(topics) == {f"task-{number}": 1 for number in range(400)}


def test_a_server_that_ends_before_its_answer_costs_no_event(
    own: Settings, own_broker: Broker, spill: Path
) -> None:
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
    result = read_topic(topics, Names(topics.namespace).trial_events)
    assert sorted(record.key or b"-" for record in result) == [b"-", b"run-1", b"run-1"]


def test_it_waits_as_long_as_the_server_asks_for(serving: Serving, spill: Path) -> None:
    """The server has no broker."""
    events = an_object(serving.url, spill)
    events.publish(trial(0))
    assert 0 < events.due - time.monotonic() <= RETRY_SECONDS
    assert json.loads(spill.read_bytes())["task_id"] == "task-0"


def test_many_events_go_in_several_batches_and_none_twice(
    topics: Settings, publishing: Serving, spill: Path
) -> None:
    lines = [json.dumps(trial(number, trial_name="x" * 1000)) for number in range(3_000)]
    spill.write_text("\n".join(lines))
    assert an_object(publishing.url, spill).send() is True
    assert arrived(topics) == {f"task-{number}": 1 for number in range(3_000)}


def test_a_refusal_that_will_not_pass_is_raised_and_keeps_the_events(topics: Settings, spill: Path) -> None:
    with Serving(topics, publish_token="staple-correct-horse") as serving:
        with pytest.raises(RuntimeError, match="publishing token is needed"):
            an_object(serving.url, spill, token="wrong").publish(trial(0))
        assert json.loads(spill.read_bytes())["task_id"] == "task-0"
        assert an_object(serving.url, spill, token="staple-correct-horse").send() is True
    assert arrived(topics) == {"task-0": 1}


def test_the_python_has_thirty_lines_and_the_limits_on_the_page_are_those_of_the_code() -> None:
    assert len(CLASS.splitlines()) <= 30
    body, event, waiting = (most // 2**20 for most in (MAX_BODY_BYTES, MAX_EVENT_BYTES, MAX_PENDING_BYTES))
    assert f"Limits: {body} MiB, {MAX_EVENTS:,} events, and {event} MiB per event" in TEXT
    assert f"{waiting} MiB of events are waiting" in TEXT
