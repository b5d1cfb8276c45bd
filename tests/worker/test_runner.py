"""A worker that cannot start says which setting is wrong, and ends as used wrongly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import KafkaConnectionError
from streamer.worker import process
from streamer.worker.metrics import Metrics
from tests.support.worker_process import wait_for


@pytest.fixture(autouse=True)
def without_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_fine(*_: Any, **__: Any) -> None:
        return

    monkeypatch.setattr(process, "check_protocol", is_fine)
    monkeypatch.setattr(process, "ensure_topics", is_fine)
    monkeypatch.setattr(process, "log_name", is_fine)
    monkeypatch.setattr(process.gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(process.gc, "freeze", lambda: None)
    monkeypatch.setattr(process.faulthandler, "enable", lambda: None)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read: No such file"), (b"models = 3", ""), (b"\xff", "utf-8")]
)
def test_a_price_table_that_cannot_be_used_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, said: str
) -> None:
    file = tmp_path / "prices.toml"
    if content is not None:
        file.write_bytes(content)
    assert process.run_worker(Settings(prices_file=file)) == process.USAGE_ERROR
    assert str(file) in caplog.text
    assert said in caplog.text
    assert "Kafka" not in caplog.text


def test_at_its_end_a_worker_does_not_free_its_state_object_by_object() -> None:
    program = (
        "from streamer.settings import Settings\n"
        "from streamer.worker import process\n"
        "class State:\n"
        "    def __init__(self): self.worker = self\n"
        "    def __del__(self): print('freed')\n"
        "async def run(*_):\n"
        "    State()\n"
        "    return 0\n"
        "process._run = run\n"
        "print('ended with', process.run_worker(Settings()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended with 0\n", done.stderr


@pytest.mark.parametrize("port", [None, 99_999])
def test_an_unusable_address_for_probes_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int | None
) -> None:
    monkeypatch.setattr(process, "worker", lambda *_: SimpleNamespace(metrics=Metrics(1)))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{port or taken.getsockname()[1]}"
        assert process.run_worker(Settings(metrics_address=address)) == process.USAGE_ERROR
    assert f"cannot answer probes at {address}" in caplog.text
    assert "STREAMER_METRICS_ADDRESS" in caplog.text
    assert "Kafka" not in caplog.text


def test_without_a_broker_each_try_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def is_away(*_: Any) -> None:
        raise KafkaConnectionError("Unable to bootstrap from [('b', 1, <AddressFamily.AF_INET: 2>)]")

    monkeypatch.setattr(process, "ensure_topics", is_away)
    monkeypatch.setattr(process, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(process, "CONNECT_RETRY_SECONDS", 0.1)
    assert process.run_worker(Settings(bootstrap="b:1")) == process.FAILED
    *tries, last = [record.getMessage() for record in caplog.records]
    away = "no Kafka broker answers at b:1. Start one (streamer up, or docker compose up)"
    assert set(tries) == {f"waiting for Kafka: {away}"}
    assert last == f"cannot start with Kafka at b:1: {away}"


@pytest.mark.stack
def test_a_worker_that_ends_in_compiled_code_says_where(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    environment = os.environ | {"STREAMER_BOOTSTRAP": "127.0.0.1:9", "STREAMER_REDIS": "redis://127.0.0.1:9"}
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "streamer.worker"], env=environment, stderr=out)
    try:
        wait_for(lambda: "waiting for Kafka" in log.read_text(), "the first try", 60)
        process.send_signal(signal.SIGSEGV)
        assert process.wait(60) == -signal.SIGSEGV
    finally:
        process.kill()
    assert "Fatal Python error: Segmentation fault" in log.read_text()
    assert "in run_worker" in log.read_text()
