"""How often intervals of the final pass rate miss it while a run goes on, in simulated runs.

    python -m benchmarks.coverage [--runs N] [--seed N]
    python -m benchmarks.coverage --picture [--seed N]

Each run plans 89 trials, of which 38 would pass. Failures run three times as long. After each event three
intervals are compared with the true final pass rate. A run counts as missed if an interval ever misses it:

- `final`: the one of streamer.statistics, on the planned order, with unknown trials counted both ways;
- the same method on finished trials, as if they were the first of the order;
- Wilson's, on finished trials, as most tools print it.

All levels are 95 %. A trial without a final value keeps the outcome that it would have had. The same seed
prints the same table. `--picture` draws one run instead.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from random import Random

from streamer.statistics.exact import normal
from streamer.statistics.final import Outcome, final, highest, lowest

PLANNED, PASSES = 89, 38
FAILURES_TAKE = 3.0
CONCURRENCIES = (8, 32)
ALLOWED = 0.05
COLUMNS = 48
"""Columns of the picture, from 0 to 1."""

Z = normal(Fraction(1, 20))

Event = tuple[int, Outcome]
"""A trial, by its number in the planned order, and its outcome as known from now on."""


@dataclass(frozen=True)
class Scenario:
    """What happens in a run besides passing and failing. Each share is one of failures and one of passes.

    Attributes:
        name: as the table says it.
        concurrency: trials that run at once.
        crash: share of trials that crash once at their end. They run again behind all others.
        cancel: share that is cancelled at its end and never has a final value.
        judge: share that waits for a judge: half of it as long as a failure runs, the others for good.
        retract: share whose result is retracted later, and published again at the end of the run.
        budget: share of all running time after which the run is stopped; what runs then has no final value.
        longest_first: whether trials start in the order of their true duration: no shuffle.
        rounds: rounds of 20 tasks, each shuffled; 1: there are no rounds, and every trial is a task.
    """

    name: str
    concurrency: int = 8
    crash: tuple[float, float] = (0.0, 0.0)
    cancel: tuple[float, float] = (0.0, 0.0)
    judge: tuple[float, float] = (0.0, 0.0)
    retract: tuple[float, float] = (0.0, 0.0)
    budget: float = 1.0
    longest_first: bool = False
    rounds: int = 1


SCENARIOS = [
    Scenario("failures three times as long"),
    Scenario("crashes, run again at the end", crash=(0.4, 0.1)),
    Scenario("cancelled trials", cancel=(0.4, 0.1)),
    Scenario("judges late or never", judge=(0.1, 0.4)),
    Scenario("budget for 60 % of the time", budget=0.6),
    Scenario("retractions", retract=(0.1, 0.4)),
    Scenario(
        "all of these",
        crash=(0.3, 0.1),
        cancel=(0.2, 0.05),
        judge=(0.05, 0.2),
        retract=(0.05, 0.2),
        budget=0.8,
    ),
    Scenario("five rounds of 20 tasks", rounds=5),
    Scenario("longest first, not shuffled", longest_first=True),
]


@dataclass(frozen=True)
class Missed:
    """Shares of runs in which each interval ever missed the final pass rate."""

    final: float
    finished: float
    wilson: float


def outcomes_of(scenario: Scenario, choice: Random) -> list[bool]:
    """The outcome of each planned trial, in a shuffled order."""
    if scenario.rounds == 1:
        return choice.sample([True] * PASSES + [False] * (PLANNED - PASSES), PLANNED)
    rates = [choice.betavariate(0.5, 0.7) for _ in range(20)]
    return [choice.random() < rate for _ in range(scenario.rounds) for rate in choice.sample(rates, 20)]


def events(scenario: Scenario, outcomes: Sequence[bool], choice: Random) -> list[Event]:
    """What becomes known of which trial, in the order in which it does."""
    changes: list[tuple[float, int, Outcome]] = []
    ended = 0.0
    for ended, trial in ends(scenario, outcomes, choice):
        changes += results(scenario, trial, outcomes[trial], ended, choice)
    told = sorted(
        changes, key=lambda item: min(item[0], ended)
    )  # what would come after the run comes at its end
    retracted = [(trial, outcomes[trial]) for _, trial, outcome in changes if outcome is None]
    return [(trial, outcome) for _, trial, outcome in told] + retracted


def ends(scenario: Scenario, outcomes: Sequence[bool], choice: Random) -> Iterator[tuple[float, int]]:
    """When each trial ends that does not crash, as long as the budget lasts."""
    durations = [choice.expovariate(1.0) * (1.0 if passed else FAILURES_TAKE) for passed in outcomes]
    order = range(len(outcomes))
    queue = deque(sorted(order, key=lambda trial: -durations[trial]) if scenario.longest_first else order)
    budget = sum(durations) * scenario.budget
    crashes = {trial for trial in order if happens(scenario.crash, outcomes[trial], choice)}
    running: list[tuple[float, int]] = []
    now = 0.0
    while queue or running:
        while queue and len(running) < scenario.concurrency:
            trial = queue.popleft()
            heapq.heappush(running, (now + durations[trial], trial))
        now, trial = heapq.heappop(running)
        budget -= durations[trial]
        if budget < 0 and scenario.budget < 1:
            return
        if trial in crashes:
            crashes.remove(trial)
            queue.append(trial)
        else:
            yield now, trial


def results(
    scenario: Scenario, trial: int, passed: bool, ended: float, choice: Random
) -> Iterator[tuple[float, int, Outcome]]:
    """When a trial's outcome becomes known, and when it is retracted."""
    if happens(scenario.cancel, passed, choice):
        return
    if happens(scenario.judge, passed, choice):
        if choice.random() < 0.5:
            yield ended + choice.expovariate(1 / FAILURES_TAKE), trial, passed
        return
    yield ended, trial, passed
    if happens(scenario.retract, passed, choice):
        yield ended + choice.expovariate(1 / FAILURES_TAKE), trial, None


def happens(shares: tuple[float, float], passed: bool, choice: Random) -> bool:
    """Whether something happens whose share hangs on the outcome."""
    return choice.random() < shares[passed]


def misses(scenario: Scenario, choice: Random) -> tuple[bool, bool, bool]:
    """Whether each of the three intervals ever misses in one run."""
    outcomes = outcomes_of(scenario, choice)
    planned, passes = len(outcomes), sum(outcomes)
    known: list[Outcome] = [None] * planned
    of_final = of_finished = of_wilson = False
    for trial, outcome in events(scenario, outcomes, choice):
        known[trial] = outcome
        passed, failed = known.count(True), known.count(False)
        result, seen = final(known, planned), passed + failed
        of_final |= not result.low <= passes <= result.high
        of_finished |= not lowest(planned, seen, passed) <= passes <= highest(planned, seen, passed)
        of_wilson |= seen > 0 and abs(passes / planned - passed / seen) > wilson_reach(passes / planned, seen)
    return of_final, of_finished, of_wilson


def wilson_reach(rate: float, trials: int) -> float:
    """Wilson's interval of a share holds a rate if the share is no further from it than this."""
    return Z * sqrt(rate * (1 - rate) / trials)


def coverage(scenario: Scenario, runs: int, seed: int) -> Missed:
    """Shares of missed runs; each run has a chance of its own, so that more runs only add to fewer."""
    result = [misses(scenario, Random(f"{seed}/{scenario}/{run}")) for run in range(runs)]
    return Missed(*(sum(column) / runs for column in zip(*result, strict=True)))


def picture(seed: int) -> Iterator[str]:
    """One run, a line for every tenth result: hard bounds as dots, `final` as dashes, the end as |."""
    choice = Random(str(seed))
    outcomes = outcomes_of(SCENARIOS[0], choice)
    known: list[Outcome] = [None] * PLANNED
    yield "results in   so far   0" + " " * 22 + ".5" + " " * 23 + "1   final"
    for number, (trial, outcome) in enumerate(events(SCENARIOS[0], outcomes, choice), 1):
        known[trial] = outcome
        if number % 10 and number < PLANNED:
            continue
        result, passed = final(known, PLANNED), known.count(True)
        line = [" "] * (COLUMNS + 1)
        mark(line, passed, PLANNED - known.count(False), ".")
        mark(line, result.low, result.high, "-")
        mark(line, PASSES, PASSES, "|")
        low, high = result.rates()
        yield f"{number:10}   {passed / number:6.3f}   {''.join(line)}  [{low:.3f}, {high:.3f}]"


def mark(line: list[str], low: int, high: int, sign: str) -> None:
    """Draw a range of passes."""
    for column in range(low * COLUMNS // PLANNED, high * COLUMNS // PLANNED + 1):
        line[column] = sign


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if `final` misses in more than 5 % of the shuffled runs of any row, else 0."""
    parser = argparse.ArgumentParser(description="How often intervals miss the final pass rate at any look.")
    parser.add_argument("--runs", type=int, default=2_000, help="simulated runs for each row (2000)")
    parser.add_argument("--seed", type=int, default=18, help="of all chance (18)")
    parser.add_argument("--picture", action="store_true", help="draw one run instead")
    options = parser.parse_args(arguments)
    if options.picture:
        print("\n".join(picture(options.seed)))
        return 0
    print(f"{options.runs:,} runs for each row, seed {options.seed}\n")
    print("| in the run | at once | `final` | same, on finished trials | Wilson, on finished trials |")
    print("|---|---|---|---|---|")
    failed = False
    for scenario in SCENARIOS:
        for concurrency in CONCURRENCIES:
            result = coverage(replace(scenario, concurrency=concurrency), options.runs, options.seed)
            cells = " | ".join(f"{share:.1%}" for share in (result.final, result.finished, result.wilson))
            print(f"| {scenario.name} | {concurrency} | {cells} |", flush=True)
            failed |= result.final > ALLOWED and not scenario.longest_first
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
