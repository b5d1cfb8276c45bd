"""Each kind of file is shown as what it is; what is none of them is text, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.web.artifacts import MAX_LOG_BYTES, CannotBeOpened, recording, view_of


def view(home: Path, name: str, content: bytes) -> tuple[str, int, list[str]]:
    (home / name).write_bytes(content)
    found = view_of(home, name, name)
    return found.kind, len(found.steps), ["".join(span.text for span in line) for line in found.lines]


def test_the_kind_follows_from_the_file_and_its_contents(tmp_path: Path) -> None:
    steps = json.dumps({"schema_version": "ATIF-v1.5", "steps": [{"source": "user", "message": "x"}]})
    assert view(tmp_path, "trajectory.json", steps.encode()) == ("steps", 1, [])
    assert view(tmp_path, "other.json", b'{"a": 1}') == ("log", 0, ['{"a": 1}'])
    assert view(tmp_path, "broken.json", b'[{"action"') == ("log", 0, ['[{"action"'])
    assert view(tmp_path, "deep.json", b"[" * 100_000)[0] == "log"
    assert view(tmp_path, "agent.log", b"a\nb\n") == ("log", 0, ["a", "b"])
    assert view(tmp_path, "my.patch", b"-a\n+b\n") == ("diff", 0, ["-a", "+b"])
    assert view(tmp_path, "page.html", b"<script>alert(1)</script>") == (
        "log",
        0,
        ["<script>alert(1)</script>"],
    )
    assert view(tmp_path, "agent.cast", b'{"version": 2}\n') == ("cast", 0, [])
    assert view(tmp_path, "response.txt", b'{"commands": [{"keystrokes": "ls"}]}')[:2] == ("steps", 1)


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotBeOpened, match="is not text"):
        view(tmp_path, "core.log", b"\x7fELF\0\0")


def test_bytes_that_are_no_utf_8_are_shown_as_such(tmp_path: Path) -> None:
    assert view(tmp_path, "latin.log", b"caf\xe9")[2] == ["caf\ufffd"]


def test_of_a_long_log_the_end_is_shown(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_bytes(b"x\n" * MAX_LOG_BYTES + b"the end\n")
    found = view_of(tmp_path, "long.log", "long")
    assert found.lines[-1][0].text == "the end"
    assert found.left_out is not None
    assert "before this" in found.left_out


def test_only_recordings_are_played(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text("recorded")
    (tmp_path / "a.log").write_text("a log")
    assert recording(tmp_path, "a.cast") == "recorded"
    with pytest.raises(CannotBeOpened, match="is no recording"):
        recording(tmp_path, "a.log")
