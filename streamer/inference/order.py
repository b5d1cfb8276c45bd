"""The order in which trials were planned: what the interval of the final pass rate rests on (inference 3).

The queue gives the order, never the results: failures run longer, so the trials that finish first pass too
often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from math import inf
from typing import NamedTuple

from streamer.inference.finite_population import Outcome
from streamer.inference.shuffle import digest


class OrderKind(StrEnum):
    """Where the order comes from, as the run declared before its first trial started."""

    SHUFFLED = "shuffled"
    """At random, with no look at results."""
    CHOSEN = "chosen"
    """By something known about the tasks: the longest first, by difficulty, by another agent's results."""
    UNKNOWN = "unknown"
    """The run did not say. It may be the order of the alphabet, or of a benchmark's list."""


class Trial(NamedTuple):
    """A trial that has started, or that has a place in the queue.

    Attributes:
        slot: its key. It must tell the trials of an agent:model apart.
        task: what it attempts.
        outcome: None without a final value: waiting, running, crashed with retries left, cancelled,
            retracted, or without its judge's score.
        place: number in the queue from 0, or the smallest position that a start or a result named; None:
            unknown.
    """

    slot: str
    task: str
    outcome: Outcome = None
    place: int | None = None


def in_order(run: str, trials: Iterable[Trial]) -> list[Trial]:
    """The trials by their place; those without one come last.

    Ties go by sha256(run, slot), never by the slot's key: keys may follow difficulty.

    >>> trials = [Trial("x", "x"), Trial("y", "y", place=7), Trial("z", "z", place=0)]
    >>> [trial.slot for trial in in_order("nightly", trials)]
    ['z', 'y', 'x']
    """
    ordered = sorted(trials, key=_place)
    times = Counter(trial.place for trial in ordered)
    if len(times) < len(ordered):
        ordered.sort(
            key=lambda trial: (_place(trial), digest(run, trial.slot) if times[trial.place] > 1 else b"")
        )
    return ordered


def sequence(ordered: Sequence[Trial], planned: int, others: Collection[int] = ()) -> list[Outcome]:
    """The outcomes as the interval takes them: in order, with an unknown trial at each free place.

    Such a trial may have started without our knowing. Of the `planned - len(ordered)` trials that are not
    there, as many as there are gaps are put into them, the first gaps first. That only widens the interval.

    Args:
        ordered: trials in the order of `in_order`, at most as many as planned.
        planned: trials of the plan.
        others: places that belong to trials of other agents or to withdrawn ones. They are no gaps.

    >>> ordered = [Trial("a", "a", True, place=0), Trial("b", "b", False, place=3)]
    >>> sequence(ordered, planned=9)
    [True, None, None, False]
    >>> sequence(ordered, planned=9, others={2}), sequence(ordered, planned=2)
    ([True, None, False], [True, False])
    """
    places = with_gaps([trial.place for trial in ordered], planned, others)
    return [None if row is None else ordered[row].outcome for row in places]


def with_gaps(places: Sequence[int | None], planned: int, others: Collection[int] = ()) -> list[int | None]:
    """The same for places in ascending order: their indices, None for an unknown trial in a gap.

    >>> with_gaps([0, 3], planned=9)
    [0, None, None, 1]
    """
    found: list[int | None] = []
    expected, spare = 0, planned - len(places)
    for index, place in enumerate(places):
        if place is not None:
            while spare > 0 and expected < place:
                if expected not in others:
                    found.append(None)
                    spare -= 1
                expected += 1
            expected = max(expected, place + 1)
        found.append(index)
    return found


def attempts_together(tasks: Sequence[str]) -> bool:
    """Whether all attempts at a task lie one after the other: few tasks are then seen early.

    One attempt at each task is no such order.

    Args:
        tasks: the task of each trial, in order.

    >>> [attempts_together(order) for order in ("abc", "aabbc", "abcabc", "abacbc")]
    [False, True, False, False]
    """
    different = len(set(tasks))
    return len([task for task, _ in groupby(tasks)]) == different < len(tasks)


def _place(trial: Trial) -> float:
    return inf if trial.place is None else trial.place
