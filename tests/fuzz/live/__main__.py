"""`make fuzz-live`: episodes with one seed after the other, on Apache Kafka and in `streamer up` by turns.

    python -m tests.fuzz.live [--on up|kafka] [--minutes 30] [--seed N] [--rounds N]

Exit code 1 if an episode found harm; the command that repeats it is printed then.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.live.beds import BEDS
from tests.fuzz.live.episode import Episode, Outcome
from tests.fuzz.live.seeds import a_seed, told

EPISODE_SECONDS = 100.0
"""Of publishing. The embedded broker keeps all that was ever written in memory, so episodes are short."""


def main() -> int:
    given = _arguments()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # brokers refuse records and come and go
    ends = time.monotonic() + 60 * given.minutes
    turns = itertools.cycle(given.on or sorted(BEDS))
    harmful = 0
    for seed, on in zip(itertools.count(given.seed), turns, strict=False):
        outcome = run(on, seed, rounds=given.rounds, seconds=min(EPISODE_SECONDS, ends - time.monotonic()))
        print(told(on, seed, outcome), flush=True)
        harmful += bool(outcome.harm)
        if given.rounds or time.monotonic() >= ends:
            break
    return 1 if harmful else 0


def run(on: str, seed: int, *, rounds: int | None, seconds: float) -> Outcome:
    """One episode on a bed of its own, in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="fuzz-live-") as directory, BEDS[on](Path(directory)) as bed:
        return Episode(bed, seed).run(rounds=rounds, seconds=seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.live", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--on", action="append", choices=sorted(BEDS), help="only there; both by turns without"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="no episode begins after so long")
    parser.add_argument("--seed", type=int, default=a_seed(), help="of the first episode; FUZZ_SEED, or any")
    parser.add_argument("--rounds", type=int, help="one episode of so many rounds, to repeat one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
