"""Events that come by HTTP: what lands in the log, what the client learns, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from streamer.client import StateReader
from streamer.operate.health import read_rejections
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_topic
from streamer.web.protocols.intake import MAX_BODY_BYTES, MAX_EVENT_BYTES
from tests.client.publish.publishing import PARTITIONS
from tests.support.events import a_trial
from tests.support.worker_process import WorkerProcess, wait_for
from tests.web.serving import Answer, Serving

NOT_JSON = b'{"type": "trial_result", "run_id": "run-1"'
NO_TASK = b'{"type":  "trial_result", "run_id": "run-1", "note": "\xc3\xa9"}'
NOT_UTF8 = b'{"type": "run_finished", "run_id": "\xff"}'
NO_PROFILE = b'{"type": "run_started", "run_id": "run-1", "grading_profile": "none-such"}'
NO_RUN = b'{"type": "trial_result", "task_id": "t", "agent": "\xe2\x80\xae\x1b[31m"}'


def line(**fields: Any) -> bytes:
    return json.dumps(a_trial(**fields)).encode()


def in_the_log(settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of each event, partition by partition."""
    return [(one.key, one.value) for one in read_topic(settings, Names(settings.namespace).trial_events)]


def test_what_is_acknowledged_is_in_the_log_in_order_and_in_its_runs_partition(
    topics: Settings, publishing: Serving
) -> None:
    lines = [line(run_id=f"run-{n % 3}", task_id=f"t{n}") for n in range(300)]
    answer = publishing.post(b"\r\n".join(lines))
    said = {"accepted": 300, "rejected": 0, "rejections": [], "ignored": {}, "remarks": []}
    assert (answer.status, answer.json()) == (200, said)
    result = list(read_topic(topics, Names(topics.namespace).trial_events))
    for run in ("run-0", "run-1", "run-2"):
        of_run = [one for one in result if one.key == run.encode()]
        assert [one.value for one in of_run] == [value for value in lines if run.encode() in value]
        assert {one.partition for one in of_run} == {partition_of(run, PARTITIONS)}


def test_an_array_is_published_element_by_element_as_it_was_written_and_an_object_is_one_event(
    topics: Settings, publishing: Serving
) -> None:
    lines, array = "application/x-ndjson", "application/json"
    first, second = line(task_id="a, b]"), b'{ "type":"run_finished",  "run_id":"run-1" }'
    for body, kind, events in (
        *((b"", lines, 0), (b"\n\n", lines, 0), (b"[]", array, 0)),
        (b" [" + first + b" ,\n" + second + b"] ", "application/json; charset=UTF-8", 2),
        (line(), array, 1),
    ):
        answer = publishing.post(body, kind)
        assert (answer.status, answer.json()["accepted"]) == (200, events), (body, kind)
    assert in_the_log(topics) == [(b"run-1", value) for value in (first, second, line())]


def test_invalid_lines_are_named_and_land_in_the_rejection_topic_with_their_bytes(
    topics: Settings, publishing: Serving, tmp_path: Path
) -> None:
    invalid = [NOT_JSON, NO_TASK, NOT_UTF8, NO_PROFILE, NO_RUN, b"[]", b"x" * MAX_EVENT_BYTES]
    body = b"\n".join([line(), *invalid, b"", line(task_id="task-2", revision=1)])
    with WorkerProcess(tmp_path, worker_settings(topics)) as worker:
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


def worker_settings(settings: Settings) -> dict[str, object]:
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    return {name: getattr(settings, name) for name in names} | {"session_timeout_seconds": 3.0}


def test_only_the_first_hundred_rejections_are_named_and_all_are_counted(publishing: Serving) -> None:
    told = publishing.post(b"x\n" * 250).json()
    assert (told["accepted"], told["rejected"], len(told["rejections"])) == (0, 250, 100)


JSON = {"kind": "application/json"}
LINES_ARE_TAKEN = "application/x-ndjson"
REFUSED: list[tuple[int, bytes, dict[str, str], str]] = [
    (400, b"", JSON, "truncated"),
    (400, b"[{}", JSON, "truncated"),
    (400, b"[{}]]", JSON, "trailing characters"),
    (400, b'{"a": NaN}', JSON, "malformed"),
    (400, b"7", JSON, "it is b'7'"),
    (400, b"[" * 100_000, JSON, "nests too deeply"),
    (400, b"", JSON, LINES_ARE_TAKEN),
    (413, b"", {"content_length": str(MAX_BODY_BYTES + 1)}, "16,777,216"),
    (413, line() + b"\n" + b"x" * (2 * 1024 * 1024 + 1), {}, "Event 2 has 2,097,153 bytes"),
    (415, line(), {"kind": "text/plain"}, LINES_ARE_TAKEN),
    (415, line(), {"kind": "application/x-www-form-urlencoded"}, LINES_ARE_TAKEN),
    (415, line(), {"kind": "multipart/form-data; boundary=x"}, LINES_ARE_TAKEN),
    (415, line(), {"kind": ""}, LINES_ARE_TAKEN),
    (415, line(), {"kind": "application/json; charset=latin-1"}, LINES_ARE_TAKEN),
    (415, line(), {"content_encoding": "gzip"}, LINES_ARE_TAKEN),
]


def test_a_body_that_cannot_be_read_is_refused_as_a_whole(topics: Settings, publishing: Serving) -> None:
    """As JSON, by its size as it is said, by the size of an event, by its media type, or compressed."""
    for status, body, given, says in REFUSED:
        answer = publishing.post(body, **given)
        told = (answer.status, answer.headers["content-type"])
        assert told == (status, "application/problem+json"), (body[:40], given)
        assert says in answer.json()["detail"], (body[:40], given)
    assert in_the_log(topics) == []


def chunked(publishing: Serving, *parts: bytes) -> Answer:
    body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    headers = {"content_type": "application/x-ndjson", "transfer_encoding": "chunked"}
    return publishing.get("/api/events", method="POST", body=body, **headers)


def test_a_chunked_body_is_read_unless_it_is_too_large(topics: Settings, publishing: Serving) -> None:
    assert chunked(publishing, *[b"\n" * 1_000_000] * 20).status == 413
    assert in_the_log(topics) == []
    assert chunked(publishing, line()[:20], line()[20:]).json()["accepted"] == 1
    assert in_the_log(topics) == [(b"run-1", line())]


def test_a_body_of_the_full_size_is_published(topics: Settings, publishing: Serving) -> None:
    lines = b"\n".join(line(task_id=f"t{number}", trial_name="x" * 1000) for number in range(14_500))
    assert MAX_BODY_BYTES * 0.95 < len(lines) <= MAX_BODY_BYTES
    assert publishing.post(lines).json()["accepted"] == 14_500
    assert sum(1 for _ in read_topic(topics, Names(topics.namespace).trial_events)) == 14_500


def test_events_are_posted_and_not_asked_for(publishing: Serving) -> None:
    answer = publishing.get("/api/events")
    assert answer.status == 405
    assert "POST to /api/events" in answer.json()["detail"]
