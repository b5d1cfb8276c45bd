"""The disk of a simulated harness writes in pieces, at its pace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from streamer.terminal.simulate import MEAN_SECONDS, SHARE_OF_WRITING, Disk, Fate, Steps, run_queue
from tests.sources.builders import START


def test_a_file_is_empty_first_and_grows_in_pieces_until_it_is_whole(tmp_path: Path) -> None:
    text = "x" * 1000
    for seed in range(20):
        file = tmp_path / str(seed) / "file"
        seen: list[int] = []
        written: list[Path] = []
        disk = Disk(tmp_path, seed, 2.0, lambda _: seen.append(file.stat().st_size), written.append)  # noqa: B023
        disk.text(file, text)
        assert seen == sorted(seen)
        assert file.read_text() == text
        assert written == [file]
    assert disk.name == tmp_path.name


@pytest.mark.parametrize(("pace", "slept"), [(0.0, []), (2.0, [2.0, 2 * SHARE_OF_WRITING])])
def test_simulated_time_goes_by_at_the_pace(tmp_path: Path, pace: float, slept: list[float]) -> None:
    waited: list[float] = []
    disk = Disk(tmp_path, 1, pace, waited.append, lambda _: None)
    disk.pass_time(MEAN_SECONDS)
    disk.pass_time(0.0)
    disk.pause_writing()
    assert waited == slept


def test_writing_is_part_of_the_time_that_goes_by(tmp_path: Path) -> None:
    waited: list[float] = []
    disk = Disk(tmp_path, 1, MEAN_SECONDS, waited.append, lambda _: None, piece_seconds=2.0)
    for _ in range(3):
        disk.pause_writing()
    for seconds in (1.0, 6.0, 10.0):
        disk.pass_time(seconds)
    assert waited == [2.0, 2.0, 2.0, 0.0, 1.0, 10.0]


# -----------------------------------------------------------------------------
# Simulated trials run at once, by the simulated clock alone.


class Line:
    """A queue of trials that note when they write."""

    def __init__(self, *durations: list[float], at_once: int) -> None:
        self.notes: list[tuple[str, float]] = []
        self.slept: list[float] = []
        self.fate = Fate(1, START)
        disk = Disk(Path("unused"), 1, MEAN_SECONDS, self.slept.append, lambda _: None)
        run_queue(disk, self.fate, self._queue(durations), at_once)

    def _queue(self, durations: tuple[list[float], ...]) -> Iterator[Steps]:
        return (self._trial("abcdef"[place], seconds) for place, seconds in enumerate(durations))

    def _trial(self, name: str, durations: list[float]) -> Steps:
        self._note(name)
        for seconds in durations:
            yield seconds
            self._note(name)

    def _note(self, name: str) -> None:
        self.notes.append((name, (self.fate.now - START) / timedelta(seconds=1)))


def test_one_at_a_time_runs_one_after_the_other() -> None:
    line = Line([2, 1], [4], at_once=1)
    assert line.notes == [("a", 0), ("a", 2), ("a", 3), ("b", 3), ("b", 7)]
    assert line.slept == [2, 1, 4]


def test_a_free_place_is_taken_by_the_next_of_the_queue_at_that_moment() -> None:
    line = Line([10], [2], [3], [1], at_once=2)
    starts = list(dict.fromkeys(line.notes))
    assert starts == [("a", 0), ("b", 0), ("b", 2), ("c", 2), ("c", 5), ("d", 5), ("d", 6), ("a", 10)]
    assert sum(line.slept) == 10


def test_of_two_that_are_due_at_once_the_earlier_started_goes_first() -> None:
    line = Line([3], [1, 2], at_once=2)
    assert line.notes[-2:] == [("a", 3), ("b", 3)]


def test_an_empty_queue_and_trials_without_any_step_end_at_once() -> None:
    assert Line(at_once=3).notes == []
    assert Line([], [], at_once=1).notes == [("a", 0), ("b", 0)]
