"""A file is unstable until it parses or stays still."""

from __future__ import annotations

import os
from pathlib import Path

from streamer.sources.tail.scan import FileStability, Stability, unstable_paths


def test_a_file_is_unstable_until_it_parses_or_stays_still(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"a": ')
    now = 100.0
    written = os.stat(path).st_ctime
    settling = FileStability(5.0, clock=lambda: now, wall=lambda: written + 1.0)

    def verdict(begun: float) -> Stability:
        return settling.judge([path], begun)[path]

    assert verdict(begun=99.0) is Stability.CHANGED
    now = 104.0
    assert verdict(begun=103.0) is Stability.WRITING
    path.write_text('{"a": 1, ')
    assert verdict(begun=103.0) is Stability.CHANGED
    now = 108.0
    assert verdict(begun=107.0) is Stability.WRITING
    now = 109.0
    assert verdict(begun=107.0) is Stability.STANDS
    path.write_text('{"a": 1}')
    assert verdict(begun=108.0) is Stability.CHANGED
    now = 110.0
    assert verdict(begun=109.5) is Stability.FRESH
    path.unlink()
    assert verdict(begun=109.9) is Stability.GONE


def test_a_file_that_was_broken_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    path, gone = tmp_path / "results.json", tmp_path / "gone"
    path.write_text("{")
    later = os.stat(path).st_ctime + 60.0
    settling = FileStability(5.0, clock=lambda: 0.0, wall=lambda: later)
    assert settling.judge([path, gone], begun=0.0) == {path: Stability.FRESH, gone: Stability.GONE}
    assert unstable_paths({path: Stability.FRESH, gone: Stability.GONE}) == {gone}
