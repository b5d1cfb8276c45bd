"""`make faults`: the full run, on one broker, on three, on the embedded one and on `up`.

It writes docs/reliability.md.

One and three brokers run beside each other: most of the time is spent waiting for sessions to end.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.faults.run import Injected
from tests.faults.table import read_results, table, write_between

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
PLAN = {"kafka": ("4", "2"), "kafka3": ("4", "3"), "embedded": ("2", "2"), "up": ("3", "1")}
"""Engine -> how often each kind comes, and workers. Each kind on Kafka: 8 times."""

NAMES = {
    "kafka": "one broker",
    "kafka3": "three brokers",
    "embedded": "the embedded broker",
    "up": "`streamer up`",
}

SUMMED = (
    "minutes",
    "events",
    "sent_again",
    "rejections",
    "rejections_repeated",
    "older_in_topics",
    "real_runs",
    "reads",
    "torn",
)
Results = tuple[list[Injected], list[dict[str, Any]]]

TOGETHER = (("kafka", "kafka3"), ("embedded", "up"))


def main() -> int:
    """Run all of it; the exit code."""
    given = _arguments()
    directory = Path(given.directory or tempfile.mkdtemp(prefix="faults-"))
    codes = []
    for engines in () if given.table_only else TOGETHER:
        running = [_start(engine, directory / engine, given) for engine in engines]
        codes += [process.wait() for process in running]
    _write({engine: read_results(directory / engine / "results.jsonl") for engine in PLAN}, given)
    return int(any(codes))


def _start(engine: str, directory: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    each, workers = PLAN[engine]
    each = str(given.each or each)
    command = [sys.executable, "-m", "tests.faults", f"--engine={engine}", f"--seed={given.seed}"]
    command += [f"--each={each}", f"--workers={workers}", f"--directory={directory}"]
    command += [f"--minutes={given.minutes}"]
    print(f"{engine}: output in {directory / 'output'}", flush=True)
    with (directory / "output").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)


def _write(result: dict[str, Results], given: argparse.Namespace) -> None:
    kafka = result["kafka"][0] + result["kafka3"][0]
    print(table(kafka))
    for engine in ("embedded", "up"):
        print(table(result[engine][0]))
    if given.write:
        write_between(DOCUMENT, "kafka", f"{_said(result, 'kafka', 'kafka3')}\n\n{table(kafka)}")
        for engine in ("embedded", "up"):
            write_between(DOCUMENT, engine, f"{_said(result, engine)}\n\n{table(result[engine][0])}")


def _said(value: dict[str, Results], *engines: str) -> str:
    lines = [f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}."]
    for engine in engines:
        results, runs = value[engine]
        sums = {name: sum(run[name] for run in runs) for name in SUMMED}
        down = [note for result in results for note in result.notes if note.startswith("one of three")]
        # Another run into the same file begins with episode 1 again.
        episodes = [list(of_one) for _, of_one in groupby(results, key=lambda result: result.episode)]
        wrong = sum(any(result.wrong for result in of_one) for of_one in episodes)
        lines.append(
            f"{NAMES[engine].capitalize()}, workers: {PLAN[engine][1]}; {len(results)} faults. "
            f"The finished episodes took {sums['minutes']:.0f} minutes. "
            f"{sums['events']:,} events were acknowledged, "
            f"after {sums['sent_again']:,} attempts that were not. "
            f"{sums['rejections']} poison events were rejected, "
            f"and {sums['rejections_repeated']} of the rejections repeated. "
            f"Something differed in {wrong} of {len(episodes)} episodes. "
            f"Topics held {sums['older_in_topics']} older summaries, for readers to drop. "
            f"Of {sums['reads']:,} atomic reads of runs, {sums['torn']} were torn. "
            f"{sums['real_runs']} real runs have the numbers that their harnesses' own code made of them."
            + "".join(f" {note.capitalize()}." for note in dict.fromkeys(down))
        )
    return "\n".join(f"- {line}" for line in lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.full", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, help="how often each kind comes on each engine")
    parser.add_argument("--minutes", type=float, default=75.0, help="no episode begins after so long")
    parser.add_argument(
        "--directory", help="where servers keep data and logs; an old one: go on with that run"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reliability.md")
    parser.add_argument("--table-only", action="store_true", help="make the tables of a run that is over")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
