"""docs/python-client.md says what is the case: its examples are executed in order, as programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamer.client
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-client.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES: list[tuple[str, str]] = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL
)
PROGRAM_SECONDS = 90


@pytest.fixture
def environment(
    tmp_path: Path, embedded_broker: str, session_redis: RedisServer, namespace: str
) -> Iterator[dict[str, str]]:
    """The variables under which commands and programs find a running deployment."""
    settings: dict[str, object] = {
        "bootstrap": embedded_broker,
        "redis": session_redis.url,
        "namespace": namespace,
        "embedded": True,
        "partitions": 4,
        "session_timeout_seconds": 3.0,
        "data_dir": tmp_path / "data",
    }
    with WorkerProcess(tmp_path, settings) as worker:
        worker.start()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        yield clean | {f"STREAMER_{name.upper()}": str(value) for name, value in settings.items()}


def test_every_example_shows_what_it_prints() -> None:
    assert len(EXAMPLES) == TEXT.count("```python") >= 7


def test_every_example_prints_what_the_page_says(environment: dict[str, str], tmp_path: Path) -> None:
    """In the order of the page: later ones read what earlier ones publish."""
    for code, output in EXAMPLES:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        assert done.stdout == output, f"{code}\n{done.stderr}"


def test_every_public_error_and_class_is_on_the_page() -> None:
    unexplained = {"Counts", "HistoryEntry", "LeaderboardRow", "StateUpdate", "Update", "finished"}
    missing = [name for name in streamer.client.__all__ if name not in unexplained and f"{name}" not in TEXT]
    assert missing == []
