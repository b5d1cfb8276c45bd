"""What `streamer why` costs: a run is folded event by event, beside the same fold in batches.

    python -m benchmarks.bench_why [--trials N] [--turns N]

This prints processor seconds of one core, the least of all turns, without the start of Python.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from benchmarks.common import events, table
from streamer.folding.fold import fold_records
from streamer.folding.prices import PriceTable
from streamer.schemas.wire import Record, records_of_lines
from streamer.views.why import Question, metric_of, why_in

TRIALS = 10_080
METRICS = ("pass_rate", "mean_cost", "composite_score", "mean_speedup")
BENCHMARKS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS, help="of one run of five agents in seven tiers")
    parser.add_argument("--turns", type=int, default=1)
    args = parser.parse_args()
    records = list(records_of_lines(events(args.trials, runs=1, benchmarks=BENCHMARKS)))
    rows = [["fold", f"{least(lambda: fold_records(records), args.turns):.2f}", ""]]
    for metric in METRICS:
        result: list[int] = []
        seconds = least(
            lambda metric=metric, result=result: result.append(moves(records, metric)), args.turns
        )
        rows.append([f"why --metric {metric}", f"{seconds:.2f}", f"{result[0]:,}"])
    print(f"{args.trials:,} trials")
    print(table([["", "seconds", "moves"], *rows]))


def moves(records: list[Record], metric: str) -> int:
    """How many events moved a metric."""
    result, _ = why_in(records, None, PriceTable.default(), Question(metric_of(metric)))
    return sum(total.moves for total in result.totals)


def least(work: Callable[[], object], turns: int) -> float:
    """Processor seconds of the fastest turn."""
    taken = []
    for _ in range(turns):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


if __name__ == "__main__":
    main()
