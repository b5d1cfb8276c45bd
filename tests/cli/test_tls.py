"""One side speaks TLS and the other does not: one clear line within seconds, from every command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_errors import one_line
from tests.support.certificates import Certificates
from tests.support.cli import streamer
from tests.support.servers import RedisServer
from tests.support.tls_front import TlsFront
from tests.support.worker_process import WorkerProcess

MOST_SECONDS = 20.0
"""Seconds that a command may take here, its start on a busy machine included."""

OF_KAFKA = [
    ["status"],
    ["verify", "--all"],
    ["rebuild"],
    ["query", "trials", "r"],
    ["query", "tiers", "r", "--by", "subtest"],
    ["publish", "events.ndjson"],
    ["subscribe", "run"],
    ["events", "r"],
    ["rejections", "list"],
    ["tail", "run-directory"],
    ["delete", "r", "--yes"],
    ["worker"],
]
OF_REDIS = [
    ["status"],
    ["verify", "--all"],
    ["rebuild"],
    ["query", "runs"],
    ["query", "run", "r"],
    ["query", "leaderboard"],
    ["report", "r"],
    ["serve", "--port", "0"],
    ["worker"],
]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "events.ndjson").write_text('{"type":"run_finished","run_id":"r"}\n')
    (tmp_path / "run-directory").mkdir()
    return tmp_path
