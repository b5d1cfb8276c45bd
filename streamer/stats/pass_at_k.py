"""The probability that at least one of k attempts at a task passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from math import comb, lcm
from typing import Any

from streamer.stats.errors import StatsError
from streamer.stats.rounding import quotient

ATTEMPT = 1 << 32
"""One attempt, beside the passes: both counts of a task in one integer."""

_PASSED = ATTEMPT + 1


class Attempts:
    """Some attempts, none of which changes any more.

    >>> tasks = Counter()
    >>> Attempts.of([("a", True), ("b", False), ("a", False)]).tally(tasks, 1)
    >>> tasks
    Counter({'a': 2, 'b': 1})
    """

    __slots__ = ("_held",)

    def __init__(self, held: Sequence[tuple[Hashable, int]] = ()) -> None:
        self._held = held

    @classmethod
    def of(cls, attempts: Iterable[tuple[Hashable, bool]]) -> Attempts:
        """The attempts at some tasks: each task, and whether the attempt passed."""
        return cls([(task, _PASSED if passed else ATTEMPT) for task, passed in attempts])

    @classmethod
    def together(cls, parts: Sequence[Attempts]) -> Attempts:
        """All attempts of some parts."""
        return parts[0] if len(parts) == 1 else cls([held for part in parts for held in part._held])

    def items(self) -> Collection[tuple[Hashable, int]]:
        """Tasks, and attempts * 2^32 + passes of each; the same task may come more than once."""
        return self._held

    def tally(self, tasks: Counter[Hashable], sign: int) -> None:
        """Count the attempts at each task (`sign` 1) or take them back (-1); nothing is kept at zero."""
        if sign > 0:
            tasks.update([task for task, _ in self._held])
            return
        for task, held in self._held:
            tasks[task] -= held // ATTEMPT
            if not tasks[task]:
                del tasks[task]


_RECOUNT_SHARE = 8
"""More changes than one in so many tasks: counting all tasks again is faster."""


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

    __slots__ = ("_changed", "_tasks", "_with")

    def __init__(self) -> None:
        self._tasks: dict[Hashable, int] = {}  # task: attempts * 2^32 + passes
        self._with: dict[int, int] = {}  # the same: how many tasks
        self._changed: dict[Hashable, int] | None = {}  # task: what it is counted as in _with; None: any

    @property
    def tasks(self) -> int:
        """Distinct tasks with at least one attempt."""
        return len(self._tasks)

    def add(self, task: Hashable, passed: bool) -> None:
        """Count one attempt at a task in."""
        self._add(task, ATTEMPT + bool(passed))

    def extend(self, attempts: Attempts | Iterable[tuple[Hashable, bool]]) -> None:
        """Count several attempts in: tasks, and whether they passed."""
        added = (attempts if isinstance(attempts, Attempts) else Attempts.of(attempts)).items()
        if self._changed is not None:
            if len(self._changed) + len(added) <= len(self._tasks) // _RECOUNT_SHARE:
                for task, held in added:
                    self._add(task, held)
                return
            self._changed = None
        tasks = self._tasks
        get = tasks.get
        for task, held in added:
            tasks[task] = get(task, 0) + held

    def withdraw(self, attempts: Attempts | Iterable[tuple[Hashable, bool]]) -> None:
        """Undo one `extend`; raises StatsError at the first task that has no such attempts."""
        gone = attempts if isinstance(attempts, Attempts) else Attempts.of(attempts)
        for task, held in gone.items():
            self._take(task, held)

    def remove(self, task: Hashable, passed: bool) -> None:
        """Undo one such `add`; raises StatsError if the task has no such attempt."""
        self._take(task, ATTEMPT + bool(passed))

    def merge(self, *others: PassAtK) -> None:
        """Count in all attempts of the others, which stay as they are; equal tasks are the same task."""
        for tasks in [dict(other._tasks) for other in others]:
            for task, held in tasks.items():
                self._add(task, held)

    def unmerge(self, *others: PassAtK) -> None:
        """Undo one `merge` of the others; raises StatsError if a task does not have their attempts."""
        for other in others:
            for task, held in list(other._tasks.items()):
                self._take(task, held)

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

    def _add(self, task: Hashable, attempts: int) -> None:
        before = self._tasks.get(task, 0)
        self._note(task, before)
        self._tasks[task] = before + attempts

    def _take(self, task: Hashable, attempts: int) -> None:
        before = self._tasks.get(task, 0)
        (tried, passed), (less, fewer) = divmod(before, ATTEMPT), divmod(attempts, ATTEMPT)
        if not 0 <= passed - fewer <= tried - less:
            raise StatsError.absent("PassAtK", (task, {"attempts": less, "passes": fewer}))
        self._note(task, before)
        if tried == less:
            del self._tasks[task]
        else:
            self._tasks[task] = before - attempts

    def _note(self, task: Hashable, before: int) -> None:
        if self._changed is not None:
            self._changed.setdefault(task, before)

    def counts(self) -> list[tuple[int, int, int]]:
        """(attempts, passes, tasks that have so many) of all tasks."""
        if self._changed is None:
            self._with = dict(Counter(self._tasks.values()))
        else:
            self._recount(self._changed)
        self._changed = {}
        counts = self._with
        return [(*divmod(held, ATTEMPT), tasks) for held, tasks in counts.items() if held]

    def _recount(self, changed: dict[Hashable, int]) -> None:
        """Count the tasks that changed as what they are now."""
        counts = self._with
        for task, before in changed.items():
            after = self._tasks.get(task, 0)
            counts[before] = counts.get(before, 0) - 1
            counts[after] = counts.get(after, 0) + 1
            if not counts[before]:
                del counts[before]


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
