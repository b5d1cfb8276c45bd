"""Recordings of terminals: how many events they hold (E3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.files import VANISHED, FileError, cast_length
from tests.sources.recordings import HEADER


def test_a_recording_that_is_no_utf_8_or_has_not_begun_has_no_length(tmp_path: Path) -> None:
    file = tmp_path / "a.cast"
    file.write_bytes(HEADER.encode() + b'[0, "o", "\xff"]\n')
    with pytest.raises(FileError, match="not UTF-8"):
        cast_length(file)
    file.write_bytes(b"")
    with pytest.raises(FileError, match="has not begun"):
        cast_length(file)


def test_a_recording_nested_too_deeply_counts_its_good_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.cast"
    file.write_text(HEADER + "[" * 100_000 + '\n[0, "o", "x"]\n')
    assert cast_length(file) == 1


def test_a_recording_that_left_since_it_was_found_is_told_from_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=VANISHED):
        cast_length(tmp_path / "gone.cast")
    with pytest.raises(FileError, match="not a regular file"):
        cast_length(tmp_path)
