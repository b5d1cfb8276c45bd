"""How soon the page's server answers about a run with very many trials: a page of them, failures, curves.

    python -m benchmarks.bench_large_run [--trials N]

This builds the run on an embedded stack with a real worker.

- `floor` is what no server can do without: this process reads the same topics. It decodes and scores each
  event where the answer needs that, and keeps nothing.
- `fresh` is the first answer of a server that was started a moment ago.
- `up` is the first answer of a server that has nothing more to do, without a viewer of the run so far.
- `goes on` is the slowest of three answers of that server while 200 more events come in each second.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import orjson

from benchmarks.common import events, table
from benchmarks.machine import cpu_seconds
from streamer.client.readers import StateReader
from streamer.folding.prices import PriceTable
from streamer.folding.score import ScoringRules, score_trial
from streamer.schemas.wire import plain_trial
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from streamer.web.api import LOOK_SECONDS
from tests.web.browsing import WebProcess, a_stack

TRIALS = 200_000
QUIET_SECONDS = 2 * LOOK_SECONDS
"""A server that takes less than a twentieth of a core for so long has nothing more to do."""

RATE = 200
"""Events a second while the run goes on."""

PAUSE_SECONDS = 3.0
"""Between two questions then. The server takes an answer of the last two seconds for a fresh one."""

RUN = "run-00000"
BOTH = ("scored-trials", "trial-events")
RULES = ScoringRules(PriceTable.default())
Work = Callable[[bytes], object] | None


def scored(value: bytes) -> object:
    """The score of a usual trial."""
    event = plain_trial(value)
    return event and score_trial(event, RULES)


ASKED: dict[str, tuple[str, Sequence[str], Work]] = {
    "a page of trials, the latest first": ("trials?limit=100", BOTH, None),
    "the dearest trials of one agent": ("trials?sort=cost_usd&descending=true&agent=agent-1", BOTH, None),
    "why trials failed": ("failures", BOTH, plain_trial),
    "the learning curves": ("curves", BOTH[1:], scored),
}
"""What is asked: the path below the run, the topics that it needs, and what it does with each event."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS, help="of one run of five agents in seven tiers")
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="bench-large-run-") as folder, a_stack(Path(folder)) as stack:
        rows = [
            [what, *(f"{took:.2f}" for took in row)] for what, row in measure(stack, folder, trials).items()
        ]
    print(f"{trials:,} trials, seconds")
    print(table([["", "floor", "fresh", "up", "goes on"], *rows]))


def measure(stack: Settings, folder: str, trials: int) -> dict[str, list[float]]:
    """The columns of the table by what is asked; a tenth of the trials come in while the run goes on."""
    lines, begun = results(trials), trials - trials // 10
    publish(stack, islice(lines, begun))
    with StateReader(stack) as reader:
        reader.wait_for(RUN, lambda run: run.progress.done == begun, timeout_seconds=600)
    rows: dict[str, list[float]] = {}
    for what, (path, topics, work) in ASKED.items():
        rows[what] = [sum(read(stack, topic, work) for topic in topics)]
        with WebProcess(stack, Path(folder)) as web:
            rows[what].append(seconds(web, path))
    with WebProcess(stack, Path(folder)) as web:
        settle(web)
        for what, (path, *_) in ASKED.items():
            rows[what].append(seconds(web, path))
        with going_on(stack, lines):
            for what, (path, *_) in ASKED.items():
                rows[what].append(max(paused(web, path) for _ in range(3)))
    return rows


def results(trials: int) -> Iterator[bytes]:
    """The results of the run; those that failed say why."""
    for line in events(trials, runs=1):
        event = orjson.loads(line) | {"trial_name": f"trial-{line[:12].hex()}"}
        if not event["resolved"]:
            event |= {
                "failure_mode": "agent_timeout",
                "message": f"TimeoutError: after {event['cost_usd']} s",
            }
        yield orjson.dumps(event)


def publish(stack: Settings, lines: Iterator[bytes], ended: threading.Event | None = None) -> None:
    """Publish results at once, or at the rate of a run that goes on until it has `ended`."""
    with ThreadedPublisher(stack) as publisher:
        for line in lines:
            publisher.send(Outgoing(RUN.encode(), line))
            if ended is not None and ended.wait(1 / RATE):
                break
        publisher.flush()


@contextmanager
def going_on(stack: Settings, lines: Iterator[bytes]) -> Iterator[None]:
    """Within, more results come in."""
    ended = threading.Event()
    publishing = threading.Thread(target=publish, args=(stack, lines, ended))
    publishing.start()
    try:
        yield
    finally:
        ended.set()
        publishing.join()


def settle(web: WebProcess) -> None:
    """Wait until a server has nothing more to do."""
    before = 0.0
    while (now := cpu_seconds(web.pid)) - before > QUIET_SECONDS / 20:
        before = now
        time.sleep(QUIET_SECONDS)


def read(stack: Settings, topic: str, work: Work) -> float:
    """How long it takes to read the run's partition of a topic, and to do this with each event."""
    began = time.monotonic()
    for record in read_topic(stack, Names(stack.namespace).topic(topic), run_id=RUN):
        if work is not None and topic == BOTH[1]:
            work(record.value)
    return time.monotonic() - began


def paused(web: WebProcess, path: str) -> float:
    """How long the server takes for an answer after a pause."""
    time.sleep(PAUSE_SECONDS)
    return seconds(web, path)


def seconds(web: WebProcess, path: str) -> float:
    """How long the server takes for an answer."""
    began = time.monotonic()
    with urllib.request.urlopen(f"{web.url}/api/runs/{RUN}/{path}", timeout=600) as answer:
        answer.read()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
