"""Other commands find the running stack, and only a running one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from streamer.operate.local import remove_discovery, write_discovery
from streamer.settings import Settings, discovery_path, read_discovery


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A discovery file of this test alone, and no other source of settings."""
    for name in [name for name in os.environ if name.startswith("STREAMER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STREAMER_DISCOVERY", str(tmp_path / "folder" / "running.json"))
    monkeypatch.chdir(tmp_path)


def a_stack(**changes: Any) -> dict[str, Any]:
    return {
        "bootstrap": "127.0.0.1:1111",
        "redis": "redis://127.0.0.1:2222/0",
        "namespace": "",
        "partitions": 3,
        "pid": os.getpid(),
        "data_dir": None,
        "started_at": time.time(),
    } | changes


def test_settings_come_from_the_running_stack_where_nothing_else_names_them() -> None:
    write_discovery(a_stack())
    settings = Settings()
    assert (settings.bootstrap, settings.redis) == ("127.0.0.1:1111", "redis://127.0.0.1:2222/0")
    assert (settings.embedded, settings.partitions) == (True, 3)
    assert Settings(namespace="mine").bootstrap == "127.0.0.1:1111"


@pytest.mark.parametrize("named", [{"bootstrap": "kafka:9092"}, {"redis": "redis://elsewhere/0"}])
def test_who_names_a_server_gets_nothing_of_the_running_stack(named: dict[str, Any]) -> None:
    write_discovery(a_stack())
    settings = Settings(**named)
    assert not settings.embedded
    assert "127.0.0.1:1111" not in settings.bootstrap
    assert "2222" not in settings.redis


def test_the_environment_and_the_file_stand_above_the_running_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    write_discovery(a_stack())
    Path("streamer.toml").write_text('bootstrap = "from-file:1"\n')
    assert Settings().bootstrap == "from-file:1"
    monkeypatch.setenv("STREAMER_BOOTSTRAP", "from-environment:1")
    assert Settings().bootstrap == "from-environment:1"


def test_a_stack_whose_process_is_gone_is_not_found() -> None:
    missing = subprocess.Popen([sys.executable, "-c", ""])
    missing.wait()
    write_discovery(a_stack(pid=missing.pid))
    assert read_discovery() is None
    assert not Settings().embedded


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED LOUDLY: only Linux says when it was started")
def test_a_process_that_got_the_number_after_a_reboot_is_not_the_stack() -> None:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    write_discovery(a_stack(started_at=booted - 3600))
    assert read_discovery() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"pid": "x", "started_at": 1})])
def test_a_file_that_is_no_discovery_counts_as_none(text: str) -> None:
    write_discovery(a_stack())
    discovery_path().write_text(text)
    assert read_discovery() is None


def test_a_process_removes_its_own_file_only() -> None:
    write_discovery(a_stack(pid=os.getppid()))
    remove_discovery()
    assert discovery_path().exists()
    discovery_path().unlink()
    write_discovery(a_stack())
    remove_discovery()
    assert not discovery_path().exists()


def test_the_stack_that_ran_before_is_found_again_when_a_second_one_ends() -> None:
    first = a_stack(pid=os.getppid())
    write_discovery(first)
    write_discovery(a_stack())
    remove_discovery()
    result = read_discovery()
    assert result is not None
    assert result["pid"] == first["pid"]
