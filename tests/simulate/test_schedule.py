"""Simulated trials run at once, by the simulated clock alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from streamer.sources.simulate.layouts import MEAN_SECONDS, Disk, Fate, Steps, run_queue

START = datetime(2026, 1, 2, tzinfo=UTC)


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
