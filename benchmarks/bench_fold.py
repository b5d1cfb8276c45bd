"""The core alone, without a broker: how fast it folds, how it grows, what a slot takes in memory.

    python -m benchmarks.bench_fold [--events N] [--repeats N] [--million] [--json FILE]

Speed is measured against validating the same bytes and keeping nothing, by turns in one process; all
times are processor time. Growth and memory are measured in a process of their own each.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from benchmarks.common import events, quotients, spread, table, turn_about, validate_only
from streamer.folding.fold import Pipeline, fold_records
from streamer.schemas.wire import records_of_lines

BATCH = 1_000
CUTS_SHARE = 0.2
"""Summaries are cut as often as this share of the time allows."""

Result = dict[str, Any]
Pages = dict[str, bytes | None]
"""What stands for the table of state pages."""


def fold(lines: Iterable[bytes]) -> None:
    """What `streamer fold --json` does: every event in, every summary out."""
    for change in fold_records(records_of_lines(lines), exits=True).summaries():
        assert change.value


def work(lines: Iterable[bytes]) -> tuple[Pipeline, Pages]:
    """What a worker under load can do: pages and scored trials of every batch, summaries now and then."""
    pipeline, pages, touched, left = Pipeline(writer="w"), Pages(), set[str](), records_of_lines(lines)
    due = 0.0
    while True:
        folded = pipeline.fold(islice(left, BATCH))
        for run_id in folded.touched:
            pages.update((page.key, page.value) for page in pipeline.run(run_id).take_pages())
            pipeline.run(run_id).take_scored()
        touched |= folded.touched
        if (began := time.process_time()) >= due or not folded.records:
            for run_id in touched:
                pipeline.run(run_id).take_changes()
            touched.clear()
            ended = time.process_time()
            due = ended + (ended - began) * (1 / CUTS_SHARE - 1)
        if not folded.records:
            return pipeline, pages


def speed(number: int, repeats: int) -> list[Result]:
    """Rates of all cases, small events and some with 100 benchmarks, and their share of validating alone."""
    results: list[Result] = []
    for benchmarks, slots in ((0, number), (100, max(1, number // 20))):
        lines = list(events(slots, benchmarks=benchmarks))
        seconds = turn_about({case.__name__: partial(case, lines) for case in CASES}, repeats)
        for name, times in seconds.items():
            rate = spread([slots / one for one in times])
            turns = quotients(seconds[validate_only.__name__], times)
            results.append(
                {
                    "case": name,
                    "benchmarks": benchmarks,
                    "events": slots,
                    "rate": rate,
                    "share": spread(turns),
                    "turns": turns,
                }
            )
    return results


def _print_speed(results: list[Result]) -> list[Result]:
    head = ("case", "benchmarks", "events", "events/s", "of validate_only", "from", "to")
    rows = [
        (r["case"], r["benchmarks"], r["events"], r["rate"]["median"], *r["share"].values()) for r in results
    ]
    print(table([head, *rows]), flush=True)
    return results


def _growth(number: int, *, million: bool) -> list[Result]:
    places = [(10_000, 1), (100_000, 1), *([(1_000_000, 1)] if million else [])]
    places += [(number, runs) for runs in (1, 100, 10_000)]
    results = []
    for slots, runs in dict.fromkeys(places):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            results.append(process.submit(_grow, slots, runs).result())
    head = ("slots", "runs", "work: events/s", "fold: events/s", "work: bytes a slot")
    print()
    print(table([head, *(tuple(result.values()) for result in results)]), flush=True)
    return results


def _grow(slots: int, runs: int) -> Result:
    """Rates of both, and what the state of a worker takes beyond what an empty one does."""
    with TemporaryFile() as file:
        file.writelines(line + b"\n" for line in events(slots, runs=runs))
        rates: Result = {}
        work(_lines(file, BATCH))
        for case in (work, fold):
            before, began = _resident_bytes(), time.process_time()
            state = case(_lines(file, slots))
            rates[case.__name__] = slots / (time.process_time() - began)
            if case is work:
                taken = _resident_bytes() - before
            del state
        return {"slots": slots, "runs": runs, **rates, "bytes": taken / slots}


def _lines(file: IO[bytes], number: int) -> Iterator[bytes]:
    """So many lines from the start, read as they are asked for."""
    file.seek(0)
    return islice(file, number)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


CASES: tuple[Callable[[Sequence[bytes]], object], ...] = (validate_only, fold, work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="events to fold; default 100,000")
    parser.add_argument("--repeats", type=int, default=5, help="turns that count; default 5")
    parser.add_argument("--million", action="store_true", help="also one run of 1,000,000 slots")
    parser.add_argument("--only", choices=["speed", "growth"], help="leave the other half out")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    args = parser.parse_args()
    figures: Result = {"events": args.events, "repeats": args.repeats}
    if args.only != "growth":
        figures["speed"] = _print_speed(speed(args.events, args.repeats))
    if args.only != "speed":
        figures["growth"] = _growth(args.events, million=args.million)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
