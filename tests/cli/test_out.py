"""A file is written as a whole, or an error names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.terminal import write


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    out = tmp_path / "absent" / "run.md"
    with pytest.raises(FileNotFoundError) as caught:
        write(b"x", out)
    assert caught.value.filename == str(out)


def test_a_file_is_there_as_a_whole_and_nothing_beside_it(tmp_path: Path) -> None:
    write(b"new", tmp_path / "run.md")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("run.md", b"new")]
