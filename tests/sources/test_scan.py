"""A complaint is said once, and only while it lasts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.files import VANISHED
from streamer.sources.tail.scan import (
    STILL_SECONDS,
    TICK_SECONDS,
    Diagnostics,
    FileStability,
    RunIndex,
    Stability,
    read_whole,
    unstable_paths,
)
from tests.sources.builders import LOCK, a_result, a_run, a_trial_file, write_json
from tests.support.tailing import followed
from tests.support.worker_process import wait_for


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


# -----------------------------------------------------------------------------
# A file is unstable until it parses or stays still.


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
    assert verdict(begun=109.9) is Stability.MISSING


def test_a_file_that_was_broken_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    path, missing = tmp_path / "results.json", tmp_path / "gone"
    path.write_text("{")
    later = os.stat(path).st_ctime + 60.0
    settling = FileStability(5.0, clock=lambda: 0.0, wall=lambda: later)
    assert settling.judge([path, missing], begun=0.0) == {path: Stability.FRESH, missing: Stability.MISSING}
    assert unstable_paths({path: Stability.FRESH, missing: Stability.MISSING}) == {missing}


# -----------------------------------------------------------------------------
# A system that tells of no changes is made up for.


def test_the_system_that_tells_of_no_changes_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(
        *_: object, ignore_permission_denied: bool, stop_event: Event, **__: object
    ) -> Iterator[set[Path]]:
        if not ignore_permission_denied:  # with it, watchfiles ignores every refusal
            raise OSError(28, "OS file watch limit reached")
        while not stop_event.wait(TICK_SECONDS):
            yield set()

    monkeypatch.setattr("streamer.sources.tail.scan.watch", refuse)
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "what is there")
        a_trial_file(run, a_result("b"))
        wait_for(lambda: len(following.trials) == 2, "another result")
    assert ["watch limit" in line for line in following.said] == [True]


# -----------------------------------------------------------------------------
# The runs in a directory: which run a path belongs to, and which runs are known to stand alone.


OPTIONS = ConvertOptions()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def an_index(root: Path) -> RunIndex:
    """What a reading of the whole found."""
    index = RunIndex(root, OPTIONS)
    index.replace(read_whole(root, OPTIONS).runs, 0.0)
    return index


def test_a_path_belongs_to_the_innermost_run_around_it(root: Path) -> None:
    run = a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    result = index.at(run)
    assert result is not None
    assert index.around(run / "a" / "anything") is result
    assert index.around(root) is None
    assert not index.is_new(result)


def test_a_new_run_is_found_by_a_place_in_it_and_is_new_until_the_whole_has_it(root: Path) -> None:
    a_run(root / "run1", [a_result("a")])
    index = an_index(root)
    run = a_run(root / "run2", [a_result("a", run="run2", id="another")])
    [result] = index.look_for([run / "a"])
    assert (result.path, index.is_new(result)) == (run, True)
    assert index.look_for([run / "a"]) == []
    index.replace(read_whole(root, OPTIONS).runs, float("inf"))
    assert not any(index.is_new(run) for run in index)
    assert len(list(index)) == 2


def test_a_reading_that_began_before_a_run_came_does_not_forget_it(root: Path) -> None:
    index = an_index(root)
    run = a_run(root / "run1", [a_result("a")])
    [result] = index.look_for([run])
    index.replace([], 0.0)
    assert index.at(run) is result
    index.replace([], float("inf"))
    assert index.at(run) is None


# -----------------------------------------------------------------------------
# A directory, or a part of it, read as `convert` reads it.
