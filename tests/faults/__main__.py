"""`python -m tests.faults`: a run of faults, with a table at the end. Exit code 0: nothing was wrong."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.bed import ENGINES, Bed
from tests.faults.run import Injected, Run, available, schedule
from tests.faults.table import table


def main() -> int:
    """Run it; the exit code."""
    given = _arguments()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # brokers go away all the time
    results: list[Injected] = []
    until = time.monotonic() + given.minutes * 60
    with given.out.open("a") if given.out else open("/dev/null", "a") as out:

        def note(result: Injected) -> None:
            results.append(result)
            out.write(json.dumps(result.line()) + "\n")
            out.flush()

        directory = Path(given.directory or tempfile.mkdtemp(prefix="faults-"))
        kinds = [k for k in available(given.engine) if not given.only or any(o in k.name for o in given.only)]
        with Bed(given.engine, directory, seed=given.seed, workers=given.workers, module=given.module) as bed:
            Run(bed, on_result=note).episodes(schedule(kinds, given.each, given.seed), until)
    print(table(results))
    return int(any(result.wrong or result.lost or result.double for result in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="kafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=1, help="times that each kind is injected")
    parser.add_argument("--only", nargs="*", help="only kinds whose name contains one of these")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="no episode begins after so long")
    parser.add_argument("--module", default="streamer.worker", help="what the workers run")
    parser.add_argument("--out", type=Path, help="a line of JSON for each fault is appended here")
    parser.add_argument("--directory", help="where servers keep data and logs, a new folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
