"""`python -m tests.faults`: a run of faults, with a table at the end. Exit code 0: nothing was wrong."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO

import orjson

from tests.faults.bed import ENGINES
from tests.faults.real import RealRuns
from tests.faults.run import Injected, Run, available, schedule
from tests.faults.table import read_results, table
from tests.faults.up_bed import a_bed
from tests.support.data import shared_data


def main() -> int:
    """Run it; the exit code."""
    given = _arguments()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # brokers go away all the time
    directory = Path(given.directory or tempfile.mkdtemp(prefix="faults-"))
    directory.mkdir(parents=True, exist_ok=True)
    results = directory / "results.jsonl"
    before = read_results(results)[0] if results.exists() else []
    with results.open("ab") as out:
        good = _run(given, Path(tempfile.mkdtemp(prefix="run-", dir=directory)), before, out)
    value, _ = read_results(results)
    print(table(value))
    return 0 if good and all(result.good for result in value) else 1


def _run(given: argparse.Namespace, directory: Path, before: list[Injected], out: IO[bytes]) -> bool:
    """Whether the whole was good at the end, beside what each fault says."""
    began = time.monotonic()
    kinds = [k for k in available(given.engine) if not given.only or any(o in k.name for o in given.only)]
    had = Counter(result.kind for result in before)
    missing = {kind: max(0, given.each - had[kind.name]) for kind in kinds}

    def note(result: Injected) -> None:
        out.write(orjson.dumps(result.line()) + b"\n")
        out.flush()

    options = {"workers": given.workers, "module": given.module}
    with a_bed(given.engine, directory, seed=given.seed, **options) as bed:
        real = RealRuns(shared_data(), given.seed)
        bed.extra = real.messages(bed.traffic)
        run = Run(bed, on_result=note)
        run.episodes(schedule(missing, given.seed + len(before)), began + given.minutes * 60)
        bed.publisher.send(bed.extra)
        outcome = run.checker.compare()
        print("at the end:", "equal" if outcome.good else outcome)
        checked = real.check(bed.topics.latest, bed.names)
        print(f"{checked} real runs have the numbers that their harnesses' own code computed")
        ends = Counter(bed.fleet.ended)
        told = {
            "engine": given.engine,
            "seed": given.seed,
            "workers": given.workers,
            "minutes": round((time.monotonic() - began) / 60, 1),
            "events": bed.publisher.total,
            "sent_again": bed.publisher.failed,
            "summaries": outcome.summaries,
            "rejections": len(bed.topics.rejected),
            "rejections_repeated": outcome.rejected_again,
            "older_in_topics": bed.topics.older,
            "real_runs": checked,
            "reads": bed.atomic.polls,
            "torn": len(bed.atomic.torn),
            "ends": {str(code): count for code, count in sorted(ends.items())},
        }
    out.write(orjson.dumps({"run": told}) + b"\n")
    print(orjson.dumps(told).decode())
    return outcome.good


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="kafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--each",
        type=int,
        default=1,
        help="times that each kind is injected; in an old directory: what it lacks of them",
    )
    parser.add_argument("--only", nargs="*", help="only kinds whose name contains one of these")
    parser.add_argument("--workers", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--minutes", type=float, default=60.0, help="no episode begins after so long")
    parser.add_argument("--module", default="streamer.worker", help="what the workers run")
    parser.add_argument("--directory", help="where servers keep data and logs, and results go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
