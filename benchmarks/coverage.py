"""How often intervals of the final pass rate miss it while a run goes on, in simulated runs.

    python -m benchmarks.coverage [--broken] [--runs N] [--seed N]
    python -m benchmarks.coverage --pairs [--runs N] [--seed N]
    python -m benchmarks.coverage --picture [--seed N]

Each run plans 89 trials, of which 38 would pass. Failures run three times as long. After each event three
intervals are compared with the true final pass rate. A run counts as missed if an interval ever misses it:

- `final`: the one of streamer.statistics, on the planned order, with unknown trials counted both ways;
- the same method on finished trials, as if they were the first of the order;
- Wilson's, on finished trials, as most tools print it.

A run in which the final rate ever leaves its hard bounds is counted as well, below the table.

All levels are 95 %. A trial without a final value keeps the outcome that it would have had. The same
seed prints the same table. `--broken` has runs that break what `final` assumes: nothing is promised there.
`--pairs` has two equal agents with 20 attempts at each of 20 tasks in a shuffled queue, 200 of them at once.
A run counts as missed if the interval of the final difference ever misses it, or if evidence ever calls one
agent better. `--picture` draws one run instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from random import Random

from benchmarks.simulated_runs import PASSES, PLANNED, SCENARIOS, Scenario, events, outcomes_of, two_agents
from streamer.statistics.exact import normal
from streamer.statistics.final import ALPHA, Outcome, final, final_without_order, highest, lowest
from streamer.statistics.pairs import Pair, evidence_worse, final_difference

CONCURRENCIES = (8, 32)
ALLOWED = 0.05
COLUMNS = 48
"""Columns of the picture, from 0 to 1."""

Z = normal(Fraction(1, 20))


@dataclass(frozen=True)
class Missed:
    """Shares of runs in which each interval, and the hard bounds, ever missed the final pass rate."""

    final: float
    finished: float
    wilson: float
    bounds: float


def misses(scenario: Scenario, choice: Random) -> tuple[bool, bool, bool, bool]:
    """Whether each of the three intervals ever misses in one run, and whether the hard bounds do."""
    outcomes = outcomes_of(scenario, choice)
    news = events(scenario, outcomes, choice)
    planned = len(outcomes)
    passes = sum(dict(news).values()) if scenario.outage else sum(outcomes)  # a failing service decides it
    known: list[Outcome] = [None] * planned
    order = list(range(planned))
    of_final = of_finished = of_wilson = of_bounds = False
    for number, (trial, outcome) in enumerate(news):
        known[trial] = outcome
        passed, failed = known.count(True), known.count(False)
        if scenario.resumed and number == planned // 2:
            order.sort(key=lambda place: known[place] is None)
        if scenario.silent:
            result = final_without_order(passed, failed, planned, scenario.concurrency)
        else:
            result = final([known[place] for place in order], planned)
        seen = passed + failed
        of_bounds |= not passed <= passes <= planned - failed
        of_final |= not result.low <= passes <= result.high
        of_finished |= not lowest(planned, seen, passed) <= passes <= highest(planned, seen, passed)
        of_wilson |= seen > 0 and abs(passes / planned - passed / seen) > wilson_reach(passes / planned, seen)
    return of_final, of_finished, of_wilson, of_bounds


def wilson_reach(rate: float, trials: int) -> float:
    """Wilson's interval of a share holds a rate if the share is no further from it than this."""
    return Z * sqrt(rate * (1 - rate) / trials)


def coverage(scenario: Scenario, runs: int, seed: int) -> Missed:
    """Shares of missed runs; each run has a chance of its own, so that more runs only add to fewer."""
    result = [misses(scenario, Random(f"{seed}/{scenario}/{run}")) for run in range(runs)]
    return Missed(*(sum(column) / runs for column in zip(*result, strict=True)))


def pairs_missed(*, finished: bool, choice: Random) -> tuple[bool, bool, bool]:
    """Whether one run ever misses the final difference, and whether evidence ever calls an agent better.

    The last look sees the misses of all: results only narrow the interval, and only add evidence. The third
    value is the evidence of pairs that are numbered wrongly: the n-th results of both agents at a task.

    Args:
        finished: the second agent has finished before the first one begins; otherwise both share the queue.
        choice: all chance.
    """
    tasks, ours, theirs = two_agents(20, choice)
    pool = Scenario("200 of each at once", concurrency=200 if finished else 400)
    if finished:
        arrivals = [(1, pair) for pair in range(len(tasks))] + [
            (0, pair) for pair, _ in events(pool, ours, choice)
        ]
    else:
        both = [outcome for pair in zip(ours, theirs, strict=True) for outcome in pair]
        arrivals = [(trial % 2, trial // 2) for trial, _ in events(pool, both, choice)]
    results: list[dict[int, list[bool]]] = [{}, {}]
    as_they_came = []
    for side, pair in arrivals:
        mine, other = (results[one].setdefault(tasks[pair], []) for one in (side, 1 - side))
        mine.append((ours, theirs)[side][pair])
        if len(other) >= len(mine):
            sides = (mine[-1], other[len(mine) - 1])
            as_they_came.append(Pair(*(sides[::-1] if side else sides)))
    pairs = [Pair(*pair) for pair in zip(ours, theirs, strict=True)]
    difference, ends = sum(ours) - sum(theirs), final_difference(pairs, len(pairs))
    return not ends.low <= difference <= ends.high, calls_one_better(pairs), calls_one_better(as_they_came)


def calls_one_better(pairs: Sequence[Pair]) -> bool:
    """Whether evidence for either of two agents reaches its level."""
    sides = (pairs, [Pair(theirs, ours) for ours, theirs in pairs])
    return any(evidence_worse(side, len(side)) >= 2 / ALPHA for side in sides)


def table_of_pairs(runs: int, seed: int) -> bool:
    """Print the table of `--pairs`; whether a guarantee holds in too few runs."""
    print("| two equal agents | `final` of the difference | evidence | evidence, numbered as results come |")
    print("|---|---|---|---|")
    failed = False
    for name, finished in (("200 at once, the other has finished", True), ("200 of each at once", False)):
        result = [
            pairs_missed(finished=finished, choice=Random(f"{seed}/{name}/{run}")) for run in range(runs)
        ]
        final_missed, wrong, as_they_came = (sum(column) / runs for column in zip(*result, strict=True))
        print(f"| {name} | {final_missed:.1%} | {wrong:.1%} | {as_they_came:.1%} |", flush=True)
        failed |= max(final_missed, wrong) > ALLOWED
    return failed


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
    """Print the table; 1 if shuffled runs miss: `final` in more than 5 % of a row, or hard bounds, else 0."""
    parser = argparse.ArgumentParser(description="How often intervals miss the final pass rate at any look.")
    parser.add_argument("--runs", type=int, default=2_000, help="simulated runs for each row (2000)")
    parser.add_argument("--seed", type=int, default=18, help="of all chance (18)")
    parser.add_argument("--broken", action="store_true", help="runs that break an assumption instead")
    parser.add_argument("--pairs", action="store_true", help="two agents and their pairs instead")
    parser.add_argument("--picture", action="store_true", help="draw one run instead")
    options = parser.parse_args(arguments)
    if options.picture:
        print("\n".join(picture(options.seed)))
        return 0
    print(f"{options.runs:,} runs for each row, seed {options.seed}\n")
    if options.pairs:
        return int(table_of_pairs(options.runs, options.seed))
    print("| in the run | at once | `final` | same, on finished trials | Wilson, on finished trials |")
    print("|---|---|---|---|---|")
    failed, rows, out_of_bounds = False, 0, 0.0
    for scenario in (one for one in SCENARIOS if one.is_shuffled is not options.broken):
        for concurrency in scenario.at_once or CONCURRENCIES:
            result = coverage(replace(scenario, concurrency=concurrency), options.runs, options.seed)
            cells = " | ".join(f"{share:.1%}" for share in (result.final, result.finished, result.wilson))
            print(f"| {scenario.name} | {concurrency} | {cells} |", flush=True)
            failed |= result.final > ALLOWED and scenario.is_shuffled
            rows, out_of_bounds = rows + 1, out_of_bounds + result.bounds
    print(f"\nHard bounds missed in {round(out_of_bounds * options.runs):,} of {rows * options.runs:,} runs.")
    failed |= bool(out_of_bounds) and not options.broken
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
