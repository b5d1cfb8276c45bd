"""What the rows of one group say: how many outcomes are final, the attempts at each task, the values."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.group import GroupState
from streamer.aggregate.missing import MissingTrials
from streamer.aggregate.roster import AWAITED, HELD, PASSED, RESOLVED, RETRYABLE, STARTED, Lineup
from streamer.inference.ability import Clusters, Interval, rate_interval
from streamer.inference.bounds import Attempted
from streamer.schemas.details import NAMED
from streamer.stats.exact_sum import ExactSum

_BOTH = PASSED | RESOLVED


class Evidence:
    """What the trials of one group say, read from its rows.

    Args:
        group: its totals.
        lineup: its rows.
        finished: the run has ended, so a trial that the infrastructure failed will not run again.

    Attributes:
        known: trials with a final value (inference 3).
        passed: known trials that passed.
        in_flight: trials that have started and have no result; 0 once the run has finished.
    """

    def __init__(self, group: GroupState, lineup: Lineup, *, finished: bool) -> None:
        self._group = group
        self.lineup = lineup
        self._open = AWAITED | (0 if finished else RETRYABLE)
        self.known = lineup.count(HELD, HELD | self._open)
        self.passed = lineup.count(HELD | PASSED, HELD | PASSED | self._open)
        self.in_flight = 0 if finished else lineup.count(STARTED, STARTED | HELD)

    @cached_property
    def successes(self) -> list[tuple[int, int, int]]:
        """Attempts and successes of the tasks, as `PassAtK.counts` gives resolved ones."""
        if all(state & _BOTH in (0, _BOTH) for state, _ in self.lineup.of_states):
            return self._group.pass_at_k.counts()
        return self._counts(HELD, PASSED)

    def attempted(self, planned: int) -> list[Attempted] | None:
        """The tasks with results; None if one has more attempts than planned.

        Args:
            planned: attempts at each task.
        """
        if self.known == self._group.trials:
            counts = self._group.pass_at_k.counts()
        else:
            counts = self._counts(HELD, RESOLVED, without=self._open)
        tasks = [Attempted(n, c, planned - n, times) for n, c, times in counts]
        return None if any(task.missing < 0 for task in tasks) else tasks

    @cached_property
    def pass_rate(self) -> Clusters:
        """The pass rate, by task."""
        return Clusters.of_counts(self.successes)

    @cached_property
    def pass_rate_interval(self) -> Interval | None:
        """The interval of the pass rate; None with fewer than two tasks (inference 6)."""
        return rate_interval(self.pass_rate)

    def means(self, metric: str) -> Clusters:
        """A metric, or a named one as `metrics/NAME`, of the trials that have it, by task.

        Nothing where a value is infinite.
        """
        group = self._group
        named = group.named.get(metric.removeprefix(NAMED)) if metric.startswith(NAMED) else None
        held = named or group.distributions.get(metric)
        if held is None or held.count != held.finite.count:
            return Clusters()
        if self._one_attempt_each:
            return Clusters.of_single(held.finite.count, *held.finite.whole())
        values = self.lineup.values(metric)
        rows = np.flatnonzero(~np.isnan(values) & self.lineup.held)
        return Clusters.of_values(self.lineup.tasks[rows].tolist(), values[rows].tolist())

    def speedups(self, sums: ExactSum, missing: MissingTrials) -> Clusters:
        """The speedups that FormulaCode's mean is over, by task; of an agent that is no baseline (R21).

        Args:
            sums: of all of them.
            missing: trials in which the agent was planned and has no sub-trial.
        """
        if not self._group.trials:
            return missing.speedups
        if not missing.tasks and self._one_attempt_each:
            return Clusters.of_single(sums.count, *sums.whole())
        counted = [*self.lineup.speedups(), *((task, 1.0) for task in missing.tasks.elements())]
        return Clusters.of_values([task for task, _ in counted], [speedup for _, speedup in counted])

    @property
    def _one_attempt_each(self) -> bool:
        return self._group.pass_at_k.tasks == self._group.trials

    def outcomes(self) -> list[bool | None]:
        """Whether the trial of each row passed; None without a final value."""
        final, passed = self.final_and_passed()
        pairs = zip(final.tolist(), passed.tolist(), strict=True)
        return [outcome if known else None for known, outcome in pairs]

    def final_and_passed(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Marks of the rows with a final value, and of the final rows that passed."""
        final = self.lineup.states & (HELD | self._open) == HELD
        return final, final & (self.lineup.states & PASSED != 0)

    def _counts(self, bits: int, passed: int, *, without: int = 0) -> list[tuple[int, int, int]]:
        """How many rows of each task have these bits, and how many of these passed."""
        states, tasks = self.lineup.states, self.lineup.tasks
        counted = states & (bits | without) == bits
        attempts = np.bincount(tasks[counted])
        passes = np.bincount(tasks[counted & (states & passed != 0)], minlength=len(attempts))
        pairs = Counter(zip(attempts.tolist(), passes.tolist(), strict=True))
        return [(n, c, times) for (n, c), times in pairs.items() if n]
