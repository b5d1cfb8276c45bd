"""How often intervals of the final pass rate miss it in public runs of Terminal-Bench, replayed.

    python -m benchmarks.replay

It reads the runs in tests/data whose trials have times of start and end. Each is replayed in its own order: a
trial's place is its rank by start, and its result comes at its end. After each start and each result two
intervals are compared with the pass rate that the run ended with:

- `final`: as if the order had been shuffled, with unknown trials counted both ways;
- Wilson's, on finished trials, as most tools print it.

All levels are 95 %. The order is the harness's own, so nothing is promised: this is no test of the method. A
trial that ended without a verdict failed (R19).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from math import sqrt
from typing import Any

from benchmarks.coverage import Z, wilson_reach
from streamer.statistics.final import FinalMissing, OrderKind, Outcome, Trial, TrialPlan, conclude, final
from tests.support.data import shared_data
from tests.support.rows import read_rows

COLUMNS = (
    *("run", "trials", "at once", "passed", "looks"),
    *("`final` misses", "Wilson misses", "`final` at a half", "Wilson at a half"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


@dataclass(frozen=True)
class Past:
    """A trial of a run that is over, in seconds of any clock."""

    task: str
    passed: bool
    started: float
    ended: float


@dataclass(frozen=True)
class Replayed:
    """What the intervals said while one run went on.

    Attributes:
        run: its submission and its name.
        trials: planned, all of which ended.
        at_once: the most that ran at the same time.
        rate: the pass rate that the run ended with.
        looks: after each start and each result.
        misses: looks at which `final` did not hold that rate; Wilson's looks begin with the first result.
        wilson_misses: the same of Wilson's interval.
        width: of `final`, after half of the results.
        wilson_width: of Wilson's interval, at the same look.
        missing: why there was no interval, at the first look that had a result and no interval.
    """

    run: str
    trials: int
    at_once: int
    rate: float
    looks: int
    misses: int
    wilson_misses: int
    width: float
    wilson_width: float
    missing: FinalMissing | None

    def line(self) -> str:
        """The row of the table."""
        counts = f"{self.looks} | {self.misses} | {self.wilson_misses}"
        widths = f"{self.width:.2f} | {self.wilson_width:.2f}"
        return f"| {self.run} | {self.trials} | {self.at_once} | {self.rate:.3f} | {counts} | {widths} |"


def public_runs() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each run and agent:model: its submission and its name, and the rows of its trials."""
    runs = defaultdict(list)
    for row in read_rows(shared_data() / "terminal_bench" / "trials.jsonl.gz"):
        runs[row["submission"], row["run"], row["agent"], row["model"]].append(row)
    for (submission, run, _, _), rows in runs.items():
        yield f"{submission.partition('_')[2]}, {run}", rows


def past(rows: Sequence[dict[str, Any]]) -> list[Past]:
    """The trials by their start; empty if any has no times."""
    trials = []
    for row in rows:
        started, ended = row.get("trial_started_at"), row.get("trial_ended_at")
        if not started or not ended:
            return []
        trials.append(Past(row["task_id"], row["is_resolved"] is True, _seconds(started), _seconds(ended)))
    return sorted(trials, key=lambda trial: trial.started)


def replayed(run: str, trials: Sequence[Past]) -> Replayed:
    """Replay one run, its trials by their start."""
    planned, passes = len(trials), sum(trial.passed for trial in trials)
    rate, half = passes / planned, (planned + 1) // 2
    looks = misses = wilson_misses = 0
    width = wilson_width = 0.0
    missing = None
    for known in moments(trials):
        passed, seen = known.count(True), planned - known.count(None)
        result = final(known, planned)
        looks += 1
        misses += not result.low <= passes <= result.high
        wilson_misses += seen > 0 and abs(rate - passed / seen) > wilson_reach(rate, seen)
        missing = missing or missing_at(run, trials, known)
        if seen == half:
            width, wilson_width = (result.high - result.low) / planned, width_of_wilson(passed / seen, seen)
    at_once = most_at_once(trials)
    return Replayed(run, planned, at_once, rate, looks, misses, wilson_misses, width, wilson_width, missing)


def moments(trials: Sequence[Past]) -> Iterator[list[Outcome]]:
    """The outcomes by place, after each start and each result; what is to come is unknown, too."""
    known: list[Outcome] = [None] * len(trials)
    for _, place, outcome in sorted(changes(trials), key=lambda change: change[:2]):
        known[place] = outcome
        yield known


def changes(trials: Sequence[Past]) -> Iterator[tuple[float, int, Outcome]]:
    """When something becomes known, of which place, and what."""
    for place, trial in enumerate(trials):
        yield trial.started, place, None
        yield trial.ended, place, trial.passed


def missing_at(run: str, trials: Sequence[Past], known: Sequence[Outcome]) -> FinalMissing | None:
    """Why there is no interval although there is a result, and the order counts as shuffled."""
    listed = [
        Trial(str(place), trial.task, outcome, place)
        for place, (trial, outcome) in enumerate(zip(trials, known, strict=True))
    ]
    result = conclude(run, TrialPlan(len(trials), OrderKind.SHUFFLED), listed).missing
    return None if result is FinalMissing.NOTHING_YET else result


def missing_of(run: str, rows: Sequence[dict[str, Any]]) -> FinalMissing | None:
    """Why a run without any times has no interval at its end."""
    trials = [Trial(row["trial_name"], row["task_id"], row["is_resolved"] is True) for row in rows]
    return conclude(run, TrialPlan(len(trials)), trials).missing


def most_at_once(trials: Sequence[Past]) -> int:
    """The most trials that ran at the same time."""
    steps = sorted([(trial.started, 1) for trial in trials] + [(trial.ended, -1) for trial in trials])
    return max(accumulate(step for _, step in steps))


def width_of_wilson(share: float, trials: int) -> float:
    """From end to end of Wilson's interval."""
    square = Z * Z / trials
    return 2 * Z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def main() -> int:
    """Print the table, and why other runs are not in it."""
    print(HEAD)
    result, without_times = [], []
    for run, rows in public_runs():
        if trials := past(rows):
            result.append(replayed(run, trials))
            print(result[-1].line(), flush=True)
        else:
            without_times.append((run, rows))
    missed, wilson = sum(run.misses > 0 for run in result), sum(run.wilson_misses > 0 for run in result)
    print(f"\n`final` ever misses in {missed} of {len(result)} runs, Wilson's interval in {wilson}.")
    print(f"A look had a result and no interval in {sum(run.missing is not None for run in result)}.")
    for run, rows in without_times:
        print(
            f"Not replayed, as its trials have no times: {run}. Its final_missing: {missing_of(run, rows)}."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
