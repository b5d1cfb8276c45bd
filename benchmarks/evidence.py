"""How many trials evidence needs until it shows that an agent is worse, pair by pair and task by task.

    python -m benchmarks.evidence [--runs N] [--seed N] [--page]

A finished baseline has 89 tasks with 5 attempts each, in rounds. The candidate runs one trial at a time, and
is worse by some points. Evidence of 20 decides, at any look (inference 7). `--page` puts the table into
docs/inference.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import median

import numpy as np

from benchmarks.drawn import in_rounds
from benchmarks.gate_study import into_page
from streamer.statistics.final import ALPHA, prefixes
from streamer.statistics.pairs import Attempts, Pair, PairedTask, evidence_worse

TASKS, ATTEMPTS, RATE = 89, 5, 0.43
DROPS = (0.0, 0.1, 0.2)
NEEDED = 1 / ALPHA

HEAD = (
    "| the candidate is | decided, pair by pair | trials, of 445 | decided, task by task | trials |",
    "|---|---|---|---|---|",
)


def needed(drop: float, random: np.random.Generator) -> tuple[int | None, int | None]:
    """After how many trials each unit decides; None: never."""
    order, ours, theirs = in_rounds(TASKS, ATTEMPTS, RATE, drop, random)
    pairs = [Pair(bool(one), bool(other)) for one, other in zip(ours, theirs, strict=True)]
    looks = prefixes(len(pairs))
    by_pair = next((n for n in looks if evidence_worse(pairs[:n], len(pairs)) >= NEEDED), None)
    passed = [Attempts(ATTEMPTS, int(theirs[order == task].sum())) for task in range(TASKS)]
    first = list(dict.fromkeys(order.tolist()))

    def of_tasks(known: int) -> float:
        tasks = []
        for task in first:
            own = ours[:known][order[:known] == task]
            tried = Attempts(len(own), int(own.sum()), ATTEMPTS - len(own))
            tasks.append(PairedTask(tried, passed[task]))
        return evidence_worse(tasks, TASKS)

    return by_pair, next((n for n in looks if of_tasks(n) >= NEEDED), None)


def row(drop: float, runs: int, seed: int) -> str:
    """The row of one candidate; where most never decide there is no median."""
    random = np.random.default_rng([seed, round(100 * drop)])
    cells = []
    for looks in zip(*(needed(drop, random) for _ in range(runs)), strict=True):
        decided = [one for one in looks if one is not None]
        trials = median(one or TASKS * ATTEMPTS for one in looks) if 2 * len(decided) > runs else None
        cells += [f"{len(decided) / runs:.1%}", "-" if trials is None else f"{trials:.0f}"]
    name = "as good" if not drop else f"{100 * drop:.0f} points worse"
    return f"| {name} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How many trials evidence needs.")
    parser.add_argument("--runs", type=int, default=600, help="simulated comparisons for each row (600)")
    parser.add_argument("--seed", type=int, default=36, help="of all chance (36)")
    parser.add_argument("--page", action="store_true", help="put the table into docs/inference.md as well")
    options = parser.parse_args(arguments)
    lines = [*HEAD, *(row(drop, options.runs, options.seed) for drop in DROPS)]
    print("\n".join(lines))
    if options.page:
        into_page({"evidence": "\n".join(lines)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
