"""A hook publishes where its variable says so, or where a stack runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streamer.hooks import is_active
from streamer.operate.local import write_discovery

VARIABLE = "STREAMER_SOME_HOOK"


@pytest.fixture(autouse=True)
def no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_DISCOVERY", str(tmp_path / "running.json"))
    monkeypatch.delenv(VARIABLE, raising=False)


def a_running_stack() -> None:
    write_discovery({"pid": os.getpid(), "started_at": time.time(), "bootstrap": "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("said", "without", "beside_a_stack"),
    [
        (None, False, True),
        ("", False, True),
        ("1", True, True),
        ("On", True, True),
        ("0", False, False),
        (" no ", False, False),
        ("maybe", False, True),
    ],
)
def test_the_variable_decides_else_whether_a_stack_runs(
    said: str | None, without: bool, beside_a_stack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        monkeypatch.setenv(VARIABLE, said)
    assert is_active(VARIABLE) is without
    a_running_stack()
    assert is_active(VARIABLE) is beside_a_stack
