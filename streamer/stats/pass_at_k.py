"""The probability that at least one of k attempts at a task passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from math import comb, lcm
from typing import Any, Self

from streamer.stats.errors import StatsError
from streamer.stats.rounding import quotient

_ATTEMPT = 1 << 32
"""One attempt, beside the passes: both counts of a task in one integer."""


class PassAtK:
    """pass@k over tasks with n attempts each, c of them passed (R11, F10).

    pass@k is the mean over the tasks with n >= k of 1 - C(n - c, k) / C(n, k). This is the unbiased
    estimate of Chen et al., "Evaluating Large Language Models Trained on Code" (2021). It is computed
    as a fraction and rounded once. The tasks of equal (n, c) are counted together.

    >>> attempts = PassAtK()
    >>> for task, passed in (("a", True), ("a", False), ("b", False), ("b", False), ("c", True)):
    ...     attempts.add(task, passed)
    ...     print({k: (v["value"], v["tasks_covered"], v["partial"]) for k, v in attempts.summary().items()})
    {'1': (1.0, 1, False)}
    {'1': (0.5, 1, False), '2': (1.0, 1, False)}
    {'1': (0.25, 2, False), '2': (1.0, 1, True)}
    {'1': (0.25, 2, False), '2': (0.5, 2, False)}
    {'1': (0.5, 3, False), '2': (0.5, 2, True)}
    """

    __slots__ = ("_counts", "_tasks")

    def __init__(self) -> None:
        self._tasks: dict[Hashable, int] = {}  # task: attempts * 2^32 + passes
        self._counts: list[tuple[int, int, int]] | None = None  # what `counts` says; None: to be counted

    @classmethod
    def of(cls, attempts: Iterable[tuple[Hashable, bool]]) -> Self:
        """Some attempts: the task of each, and whether it passed."""
        held = cls()
        held._count((task, _ATTEMPT + bool(passed)) for task, passed in attempts)
        return held

    @property
    def tasks(self) -> int:
        """Distinct tasks with at least one attempt."""
        return len(self._tasks)

    def add(self, task: Hashable, passed: bool) -> None:
        """Count one attempt at a task in."""
        self._count([(task, _ATTEMPT + bool(passed))])

    def remove(self, task: Hashable, passed: bool) -> None:
        """Undo one such `add`; raises StatsError if the task has no such attempt."""
        self._take_back([(task, _ATTEMPT + bool(passed))])

    def merge(self, *others: PassAtK) -> None:
        """Count in all attempts of the others, which stay as they are; equal tasks are the same task."""
        for attempts in [list(other._tasks.items()) for other in others]:
            self._count(attempts)

    def unmerge(self, *others: PassAtK) -> None:
        """Undo one `merge` of the others; raises StatsError if a task does not have their attempts."""
        self._take_back([held for other in others for held in other._tasks.items()])

    def summary(
        self, planned_attempts: int | None = None, planned_tasks: int | None = None
    ) -> dict[str, dict[str, Any]]:
        """pass@k by k as text, in ascending order: {"value", "tasks_covered", "partial"}; {} of nothing.

        k is 1, the powers of two, 5 and 10, up to the larger of the planned attempts and the most that a
        task has. A k that no task covers yet has value None; it is partial until all tasks, planned and
        seen, cover it.
        """
        if not self._tasks:
            return {}
        counts = self.counts()
        most = max(max(attempts for attempts, _, _ in counts), planned_attempts or 0)
        expected = max(planned_tasks or 0, self.tasks)
        result: dict[str, dict[str, Any]] = {}
        for k in sizes(most):
            value, covered = pass_at_k(k, counts)
            result[str(k)] = {"value": value, "tasks_covered": covered, "partial": covered < expected}
        return result

    def counts(self) -> list[tuple[int, int, int]]:
        """(attempts, passes, tasks that have so many) of all tasks; to be read only."""
        if self._counts is None:
            alike = Counter(self._tasks.values())
            self._counts = [(*divmod(attempts, _ATTEMPT), tasks) for attempts, tasks in alike.items()]
        return self._counts

    def _count(self, attempts: Iterable[tuple[Hashable, int]]) -> None:
        self._counts = None
        tasks, before = self._tasks, self._tasks.get
        for task, more in attempts:
            tasks[task] = before(task, 0) + more

    def _take_back(self, attempts: Iterable[tuple[Hashable, int]]) -> None:
        left: dict[Hashable, int] = {}
        for task, gone in attempts:
            before = left.get(task, self._tasks.get(task, 0))
            (tried, passed), (less, fewer) = divmod(before, _ATTEMPT), divmod(gone, _ATTEMPT)
            if not 0 <= passed - fewer <= tried - less:
                raise StatsError.absent("PassAtK", (task, {"attempts": less, "passes": fewer}))
            left[task] = before - gone
        self._counts = None
        for task, after in left.items():
            if after:
                self._tasks[task] = after
            else:
                del self._tasks[task]


Counts = Iterable[tuple[int, int, int]]
"""(attempts, passes, tasks that have so many); the same numbers may come more than once."""


def pass_at_k(k: int, counts: Counts) -> tuple[float | None, int]:
    """pass@k over the tasks with at least k attempts (R11), and how many tasks that are.

    >>> pass_at_k(2, [(4, 1, 1), (1, 1, 5)])
    (0.5, 1)
    """
    failed, of, covered = _all_of_k(k, [(n, n - c, tasks) for n, c, tasks in counts])
    return (quotient(of - failed, of), covered) if covered else (None, 0)


def pass_hat_k(k: int, counts: Counts) -> tuple[float | None, int]:
    """pass^k over the tasks with at least k attempts, and how many tasks that are.

    It is the probability that all of k attempts pass (Yao et al., "tau-bench", arXiv 2406.12045, 2024). That
    is the mean of C(c, k) / C(n, k) over the tasks with n >= k, rounded once. None if no task has k.

    >>> [pass_hat_k(k, [(4, 1, 1), (4, 4, 1)]) for k in (1, 4, 8)]
    [(0.625, 2), (0.5, 2), (None, 0)]
    """
    passed, of, covered = _all_of_k(k, list(counts))
    return (quotient(passed, of), covered) if covered else (None, 0)


def _all_of_k(k: int, counts: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """The mean chance that k of n attempts are all among c of them, as a fraction, and the tasks covered."""
    draws = {n: comb(n, k) for n, _, _ in counts if n >= k}
    common = lcm(*draws.values())
    covered = ways = 0
    for n, c, tasks in counts:
        if n >= k:
            covered += tasks
            ways += tasks * comb(c, k) * (common // draws[n])
    return ways, covered * common, covered


def sizes(most: int) -> list[int]:
    """The k that are reported up to `most` attempts: 1, powers of two, 5 and 10, ascending (R11).

    >>> sizes(12)
    [1, 2, 4, 5, 8, 10]
    """
    powers = {1 << exponent for exponent in range(most.bit_length())}
    return sorted(k for k in powers | {5, 10} if k <= most)
