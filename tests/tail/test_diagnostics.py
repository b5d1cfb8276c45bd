"""A complaint is said once, and only while it lasts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from streamer.sources.base import ConvertReport
from streamer.sources.files import VANISHED
from streamer.sources.tail.scan import STILL_SECONDS, Diagnostics, FileStability
from tests.sources.builders import write_json


class Looks:
    """Readings of one broken file under a clock of our own."""

    def __init__(self, path: Path, reason: str = "not valid JSON") -> None:
        self.now = 1000.0
        self.said: list[str] = []
        self.path = path
        self.settling = FileStability(STILL_SECONDS, clock=lambda: self.now, wall=lambda: self._written + 0.1)
        self.complaints = Diagnostics(self.settling, self.said.append)
        self._report = ConvertReport(unreadable=[(path, reason)])

    @property
    def _written(self) -> float:
        return os.stat(self.path).st_ctime if self.path.exists() else 0.0

    def look(self, seconds: float = 1.0, meanwhile: Callable[[], object] = lambda: None) -> list[str]:
        """A reading that takes so long and complains of the file; something happens before it ends."""
        begun = self.settling.begin()
        self.now += seconds
        meanwhile()
        self.complaints.hear(self._report, begun)
        return self.said


def test_a_complaint_is_said_when_the_file_has_been_still_for_long_and_once(tmp_path: Path) -> None:
    looks = Looks(write_json(tmp_path / "results.json", "{"))
    for _ in range(5):
        assert looks.look() == []
        assert looks.complaints.waiting == {looks.path}
    assert looks.look() == [f"{looks.path}: not valid JSON"]
    assert looks.look() == [f"{looks.path}: not valid JSON"]
    assert looks.complaints.waiting == set()
    assert looks.complaints.unreadable == {looks.path: "not valid JSON"}


def test_a_file_that_changes_all_the_time_is_never_complained_of(tmp_path: Path) -> None:
    looks = Looks(write_json(tmp_path / "results.json", "{"))
    for number in range(20):
        looks.look(4.0, lambda: write_json(looks.path, "{" * (number + 2)))  # noqa: B023
    assert looks.said == []


def test_a_file_that_is_replaced_by_another_of_the_same_kind_starts_anew(tmp_path: Path) -> None:
    """Written elsewhere long ago with the same size and time, then moved over it."""
    looks = Looks(write_json(tmp_path / "results.json", "{", mtime_ns=1_000))
    other = write_json(tmp_path / "other", "[", mtime_ns=1_000)
    for _ in range(5):
        looks.look()
    looks.look(meanwhile=lambda: other.rename(looks.path))
    assert looks.said == []
    assert looks.look(4.0) == []
    assert looks.look(2.0) != []


def test_a_file_that_came_back_after_a_reading_missed_it_is_never_complained_of(tmp_path: Path) -> None:
    """A directory above it was away for a moment, which leaves no trace in the file."""
    looks = Looks(write_json(tmp_path / "results.json", "{}"), VANISHED)
    for _ in range(9):
        assert looks.look(3.0) == []


def test_a_file_that_left_at_the_last_moment_is_not_complained_of(tmp_path: Path) -> None:
    looks = Looks(write_json(tmp_path / "results.json", "{"))
    for _ in range(5):
        looks.look()
    assert looks.look(meanwhile=looks.path.unlink) == []
    assert looks.look() == []
