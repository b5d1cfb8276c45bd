"""What comparing the agents of a run costs: drains with and without, and one comparison of a large run.

    python -m benchmarks.comparisons [--turns N]

This prints the milliseconds of one comparison for several sizes. The rows of `make bench` are drains.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import count

import orjson

from benchmarks.common import Scale, quotients, spread, table
from benchmarks.rows import Measured, Row, Sites
from benchmarks.starts import fold_batch, microseconds, plan_of, results_of, with_starts
from streamer.folding.fold import Pipeline

AGENTS, TASKS = 30, 89
"""Agents and tasks of each run that is drained: one attempt at each task of Terminal-Bench."""

SLOWER_AT_MOST = 1.15
SIZES = ((2, 89), (30, 89), (30, 500), (60, 89))
TURNS = 10


def comparisons(scale: Scale, sites: Sites) -> Measured:
    """Rows: a drain whose agents are compared over the same drain without, and one comparison of a run.

    Without comparison the agents are declared as baselines, which are compared with nothing.
    """
    number = scale.backlog
    cases = {"compared": backlog(number, compared=True), "baselines": backlog(number, compared=False)}
    drained = microseconds(scale, sites, cases)
    taken = milliseconds(30, 500, TURNS)
    rows = [
        Row(
            f"drain of {number:,} results of {AGENTS} agents that are compared, over the same of baselines",
            quotients(drained["compared"], drained["baselines"]),
            "x",
            "<=",
            SLOWER_AT_MOST,
        ),
        Row("one comparison of 30 agents with 500 tasks each, half over", taken, "ms"),
    ]
    return Measured(rows, {"cpu_microseconds_of_a_result": drained, "comparison_milliseconds": taken})


def backlog(number: int, *, compared: bool) -> list[bytes]:
    """The plans and results of runs, one after the other."""
    results = list(results_of(number, AGENTS, TASKS))
    plans = [plan_of(run, AGENTS, TASKS) for run in dict.fromkeys(one["run_id"] for one in results)]
    agents = [f"agent-{agent:02d}" for agent in range(AGENTS)]
    told = {} if compared else {"baselines": agents}
    return [orjson.dumps(event) for event in (*(plan | told for plan in plans), *results)]


def milliseconds(agents: int, tasks: int, turns: int) -> list[float]:
    """Milliseconds of the processor for each comparison, each after one more result of each agent."""
    results = list(results_of(agents * tasks, agents, tasks))
    half = len(results) // 2
    pipeline, offsets, run_id = Pipeline(), count(), results[0]["run_id"]
    fold_batch(pipeline, [plan_of(run_id, agents, tasks), *with_starts(results[:half])], offsets)
    run = pipeline.run(run_id)
    run.take_changes()
    taken = []
    for first in range(half, half + turns * agents, agents):
        fold_batch(pipeline, results[first : first + agents], offsets)
        run.take_summaries(comparison=False)
        began = time.process_time()
        run.comparisons.take()
        taken.append((time.process_time() - began) * 1_000)
    return taken


def main() -> None:
    """Print the milliseconds of one comparison."""
    parser = argparse.ArgumentParser(description="What one comparison of a run's agents takes.")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"comparisons of each size ({TURNS})")
    options = parser.parse_args()
    rows: list[Sequence[object]] = [("agents", "tasks", "median", "from", "to", "unit")]
    for agents, tasks in SIZES:
        taken = spread(milliseconds(agents, tasks, options.turns)).values()
        rows.append((agents, tasks, *taken, "ms"))
    print(table(rows))


if __name__ == "__main__":
    main()
