"""docs/http.md says what is the case: its curl line and its Python are run against a real server."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.web import intake
from streamer.web.intake import MAX_BODY_BYTES, MAX_EVENT_BYTES, MAX_EVENTS
from streamer.web.models import RETRY_SECONDS
from tests.house.repository import ROOT
from tests.publish.publishing import PARTITIONS, arrived, make_topics, settings_of
from tests.support.events import a_trial
from tests.support.worker_process import wait_for
from tests.web.serving import Serving

TEXT = (ROOT / "docs" / "http.md").read_text("utf-8")
CLASS, USE = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
CURL = next(line for line in TEXT.splitlines() if line.startswith("curl"))
DOCUMENTED = "http://127.0.0.1:8720"


@pytest.fixture
def topics(logged: Settings) -> Settings:
    return make_topics(logged.model_copy(update={"partitions": PARTITIONS}))


@pytest.fixture
def serving(topics: Settings) -> Iterator[Serving]:
    with Serving(topics) as serving:
        yield serving


def an_object(url: str, file: Path, **options: Any) -> Any:
    """An object of the page's class."""
    names: dict[str, Any] = {}
    exec(compile(CLASS, "docs/http.md", "exec"), names)
    return names["Events"](url, str(file), **options)


def trial(number: int, **fields: Any) -> dict[str, Any]:
    return a_trial(task_id=f"task-{number}", **fields)


def test_the_curl_line_publishes(topics: Settings, serving: Serving, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("SKIPPED LOUDLY: there is no curl, so the line of docs/http.md was not run. Install it")
    lines = [json.dumps(trial(number)) for number in range(3)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    assert CURL.count(DOCUMENTED) == 1
    command = CURL.replace(DOCUMENTED, f"http://127.0.0.1:{serving.port}")
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in TEXT
    assert arrived(topics) == {"task-0": 1, "task-1": 1, "task-2": 1}


def test_the_python_runs_as_a_program_of_its_own(topics: Settings, serving: Serving, tmp_path: Path) -> None:
    program = (CLASS + USE).replace(DOCUMENTED, f"http://127.0.0.1:{serving.port}")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", program],  # the standard library alone
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert arrived(topics) == {"fix-git": 1}
    assert (tmp_path / "spill.ndjson").read_bytes() == b""


def test_while_the_server_is_away_events_wait_in_the_file_and_are_sent_afterwards(
    topics: Settings, tmp_path: Path
) -> None:
    port, file = free_port(), tmp_path / "spill.ndjson"
    events = an_object(f"http://127.0.0.1:{port}", file)
    with Serving(topics, port):
        events.publish(trial(0))
        assert file.read_bytes() == b""
    for number in range(1, 400):
        events.publish(trial(number))
    assert len(file.read_text().split()) >= 399
    assert events.send() is False
    assert arrived(topics) == {"task-0": 1}
    with Serving(topics, port):
        assert events.send() is True
    assert file.read_bytes() == b""
    assert arrived(topics) == {f"task-{number}": 1 for number in range(400)}


def test_a_server_that_ends_before_its_answer_costs_no_event(settings: Settings, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "spill.ndjson"
    events = an_object(f"http://127.0.0.1:{port}", file)
    with Broker() as broker:
        own = settings_of(broker.bootstrap, settings.namespace).model_copy(update={"redis": settings.redis})
        make_topics(own)
        with Serving(own, port) as serving, ThreadPoolExecutor(1) as thread:
            events.publish(trial(0))
            broker.child.signal(signal.SIGSTOP)
            events.due = 0  # as if a second had passed since the last batch
            publishing = thread.submit(events.publish, trial(1))
            wait_for(lambda: serving.web.intake.held_bytes > 0, "the server waits for the broker")
            serving.stop()
            publishing.result()
            broker.child.signal(signal.SIGCONT)
        assert json.loads(file.read_bytes())["task_id"] == "task-1"
        with Serving(own, port):
            wait_for(events.send, "everything is acknowledged")
        assert set(arrived(own)) == {"task-0", "task-1"}


def test_the_next_process_sends_what_the_last_one_left_half_lines_too(
    topics: Settings, serving: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spill.ndjson"
    away = an_object(f"http://127.0.0.1:{free_port()}", file)
    away.publish(trial(0))
    with file.open("a") as left:
        left.write('\n{"type": "trial_res')
    events = an_object(f"http://127.0.0.1:{serving.port}", file)
    events.publish(trial(1))
    assert events.send() is True
    assert capsys.readouterr().out.startswith("rejected: not_json")
    found = read_topic(topics, Names(topics.namespace).trial_events)
    assert sorted(record.key or b"-" for record in found) == [b"-", b"run-1", b"run-1"]


def test_it_waits_as_long_as_the_server_asks_for(settings: Settings, tmp_path: Path) -> None:
    with Serving(settings) as serving:  # and no broker
        events = an_object(f"http://127.0.0.1:{serving.port}", tmp_path / "spill.ndjson")
        events.publish(trial(0))
        assert 0 < events.due - time.monotonic() <= RETRY_SECONDS
        assert json.loads((tmp_path / "spill.ndjson").read_bytes())["task_id"] == "task-0"


def test_many_events_go_in_several_batches_and_none_twice(
    topics: Settings, serving: Serving, tmp_path: Path
) -> None:
    file = tmp_path / "spill.ndjson"
    lines = [json.dumps(trial(number, trial_name="x" * 1000)) for number in range(3_000)]
    file.write_text("\n".join(lines))
    assert an_object(f"http://127.0.0.1:{serving.port}", file).send() is True
    assert arrived(topics) == {f"task-{number}": 1 for number in range(3_000)}


def test_a_refusal_that_will_not_pass_is_raised_and_keeps_the_events(
    topics: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "spill.ndjson"
    with Serving(topics, publish_token="staple-correct-horse") as serving:
        url = f"http://127.0.0.1:{serving.port}"
        with pytest.raises(RuntimeError, match="token for publishing"):
            an_object(url, file, token="wrong").publish(trial(0))
        assert json.loads(file.read_bytes())["task_id"] == "task-0"
        assert an_object(url, file, token="staple-correct-horse").send() is True
    assert arrived(topics) == {"task-0": 1}


def test_the_python_has_thirty_lines() -> None:
    assert len(CLASS.splitlines()) <= 30


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    sizes = (
        f"{MAX_BODY_BYTES // 2**20} MiB, {MAX_EVENTS:,} events, and {MAX_EVENT_BYTES // 2**20} MiB an event"
    )
    assert f"At most {sizes}" in TEXT
    assert f"{intake.MAX_HELD_BYTES // 2**20} MiB of events wait" in TEXT
