"""The probability that at least one of k attempts at a task passes."""

from __future__ import annotations

from collections.abc import Hashable
from math import comb, lcm
from typing import Any

from streamer.stats.errors import StatsError
from streamer.stats.numbers import quotient


class PassAtK:
    """pass@k over tasks with n attempts each, c of them passed (R11, F10).

    pass@k = the mean over the tasks with n >= k of 1 - C(n - c, k) / C(n, k), the unbiased estimate of
    Chen et al., "Evaluating Large Language Models Trained on Code" (2021); rational, rounded once.
    The tasks of equal (n, c) are counted together.

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

    __slots__ = ("_tasks", "_with")

    def __init__(self) -> None:
        self._tasks: dict[Hashable, tuple[int, int]] = {}  # task: (attempts, passes)
        self._with: dict[tuple[int, int], int] = {}  # (attempts, passes): tasks

    @property
    def tasks(self) -> int:
        """Distinct tasks with at least one attempt."""
        return len(self._tasks)

    def add(self, task: Hashable, passed: bool) -> None:
        """Count one attempt at a task in."""
        attempts, passes = self._tasks.get(task, (0, 0))
        self._set(task, attempts + 1, passes + bool(passed))

    def remove(self, task: Hashable, passed: bool) -> None:
        """Undo one such `add`; raises StatsError if the task has no such attempt."""
        attempts, passes = self._tasks.get(task, (0, 0))
        if (passes if passed else attempts - passes) <= 0:
            raise StatsError.absent("PassAtK", (task, passed))
        self._set(task, attempts - 1, passes - bool(passed))

    def merge(self, *others: PassAtK) -> None:
        """Count in all attempts of the others, which stay as they are; equal tasks are the same task."""
        for other in others:
            for task, (attempts, passes) in list(other._tasks.items()):
                known_attempts, known_passes = self._tasks.get(task, (0, 0))
                self._set(task, known_attempts + attempts, known_passes + passes)

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
        most = max(max(attempts for attempts, _ in self._with), planned_attempts or 0)
        expected = max(planned_tasks or 0, self.tasks)
        result: dict[str, dict[str, Any]] = {}
        for k in sizes(most):
            value, covered = self._estimate(k)
            result[str(k)] = {"value": value, "tasks_covered": covered, "partial": covered < expected}
        return result

    def _estimate(self, k: int) -> tuple[float | None, int]:
        """pass@k over the tasks with at least k attempts, and how many those are."""
        draws = {n: comb(n, k) for n, _ in self._with if n >= k}
        if not draws:
            return None, 0
        common = lcm(*draws.values())
        covered = passing = 0
        for (n, c), tasks in self._with.items():
            if n >= k:
                covered += tasks
                passing += tasks * (draws[n] - comb(n - c, k)) * (common // draws[n])
        return quotient(passing, covered * common), covered

    def _set(self, task: Hashable, attempts: int, passes: int) -> None:
        """Move a task to its new place among the counts."""
        before = self._tasks.get(task)
        if before is not None:
            self._with[before] -= 1
            if not self._with[before]:
                del self._with[before]
        if attempts:
            after = (attempts, passes)
            self._tasks[task] = after
            self._with[after] = self._with.get(after, 0) + 1
        else:
            del self._tasks[task]


def sizes(most: int) -> list[int]:
    """The k that are reported up to `most` attempts: 1, powers of two, 5 and 10, ascending (R11).

    >>> sizes(12)
    [1, 2, 4, 5, 8, 10]
    """
    powers = {1 << exponent for exponent in range(most.bit_length())}
    return sorted(k for k in powers | {5, 10} if k <= most)
