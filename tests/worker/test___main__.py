"""`python -m streamer.worker` says in one line which setting is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.worker.__main__ import main
from streamer.worker.process import USAGE_ERROR


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("STREAMER_CONFIG", "absent.toml", "no such file"), ("STREAMER_PARTITIONS", "x", "setting partitions")],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert main() == USAGE_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("streamer worker: ")
    assert said in line
