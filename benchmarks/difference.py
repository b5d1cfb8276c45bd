"""How often the interval of a difference of pass rates holds the true one, which is 0 (inference 7).

    python -m benchmarks.difference [--runs N] [--seed N] [--page]

120 settings have equal attempts, and 60 more have unequal ones. The level is 95 %. Each cell is the lowest
coverage over both correlations of the agents' chances. The last column is the lowest coverage in the row of
the t interval over the differences by task, which collapses where few tasks differ. The same seed prints the
same table. `--page` puts it into docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from benchmarks.drawn import Counts, Setting, drawn
from benchmarks.gate_study import into_page
from streamer.statistics.ability import Clusters, mean_interval
from streamer.statistics.pairs import Attempts, PairedTask, difference_interval

TASKS = (5, 10, 20, 50, 89, 200)
ATTEMPTS: tuple[tuple[int | None, int | None], ...] = ((1, 1), (5, 5))
UNEQUAL: tuple[tuple[int | None, int | None], ...] = ((1, 5), (None, None))
UNEQUAL_TASKS = (10, 50, 200)
RATES = (0.4, 0.6, 0.8, 0.9, 0.98)
ALIKE = (0.7, 0.95)
LEAST = 0.92
"""Coverage below this is a failure. With 500 runs chance moves it by about 1 point."""


def covers(setting: Setting, random: np.random.Generator) -> tuple[bool, bool]:
    """Whether the interval of section 7 holds 0, and whether the t interval does."""
    counts = drawn(setting, random)
    n, a, k, b = (part.tolist() for part in counts)
    pairs = [
        PairedTask(Attempts(tried, passed), Attempts(other, theirs))
        for tried, passed, other, theirs in zip(n, a, k, b, strict=True)
    ]
    interval = difference_interval(pairs)
    assert interval is not None, "there are five tasks"
    return interval.low <= 0 <= interval.high, _covers_by_t(*counts)


def _covers_by_t(n: Counts, a: Counts, k: Counts, b: Counts) -> bool:
    ends = mean_interval(Clusters.of_sums((1, float(one)) for one in a / n - b / k))
    return ends is not None and ends.low <= 0 <= ends.high


def rows(runs: int, seed: int) -> Iterator[tuple[str, list[float], float]]:
    """Each row: its name, the coverage by rate, and the lowest one of the t interval."""
    kinds = [*product(TASKS, ATTEMPTS), *product(UNEQUAL_TASKS, UNEQUAL)]
    for tasks, (ours, theirs) in kinds:
        coverage, by_t = [], []
        for rate in RATES:
            shares = []
            for alike in ALIKE:
                random = np.random.default_rng([seed, tasks, ours or 0, theirs or 0, *_whole(rate, alike)])
                looks = [covers(Setting(tasks, ours, theirs, rate, alike), random) for _ in range(runs)]
                shares.append([sum(one) / runs for one in zip(*looks, strict=True)])
            coverage.append(min(share for share, _ in shares))
            by_t.append(min(share for _, share in shares))
        against = "1 to 5" if ours is None else str(ours) if ours == theirs else f"{ours} against {theirs}"
        yield f"| {tasks} | {against} ", coverage, min(by_t)


def _whole(*shares: float) -> tuple[int, ...]:
    return tuple(round(100 * share) for share in shares)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if any cell is below 92 %."""
    parser = argparse.ArgumentParser(description="Coverage of the interval of a difference.")
    parser.add_argument("--runs", type=int, default=500, help="comparisons for each setting (500)")
    parser.add_argument("--seed", type=int, default=36, help="of all chance (36)")
    parser.add_argument("--page", action="store_true", help="put the table into docs/inference.md as well")
    options = parser.parse_args(arguments)
    rates = " | ".join(f"both at {rate:.0%}" for rate in RATES)
    lines = [f"| tasks | attempts | {rates} | t interval, lowest |", "|---" * (3 + len(RATES)) + "|"]
    print("\n".join(lines))
    worst = 1.0
    for name, coverage, by_t in rows(options.runs, options.seed):
        lines.append(f"{name}| {' | '.join(f'{share:.1%}' for share in coverage)} | {by_t:.0%} |")
        print(lines[-1], flush=True)
        worst = min(worst, *coverage)
    if options.page:
        into_page({"difference": "\n".join(lines)})
    return int(worst < LEAST)


if __name__ == "__main__":
    sys.exit(main())
