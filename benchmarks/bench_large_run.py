"""How soon the page's server answers about a run with very many trials: a page of them, failures, curves.

    python -m benchmarks.bench_large_run [--trials N]

This builds the run on an embedded stack with a real worker. For each question it starts a server of the page
that has read nothing yet. `first` is its first answer, which reads the log; `again` is the answer to the same
question. `viewed` is the first answer of a server on which the run's page was open for 15 seconds. `x` is
the first answer over reading the same topics and keeping nothing: no server can be faster.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import events, table
from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.storage.log import read_topic
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from tests.web.browsing import WebProcess, a_stack

TRIALS = 200_000
VIEWED_SECONDS = 15.0
RUN = "run-00000"
BOTH = ("scored-trials", "trial-events")
ASKED: dict[str, tuple[str, Sequence[str]]] = {
    "a page of trials, the latest first": ("trials?limit=100", BOTH),
    "the dearest trials of one agent": ("trials?sort=cost_usd&descending=true&agent=agent-1", BOTH),
    "why trials failed": ("failures", BOTH),
    "the learning curves": ("curves", BOTH[1:]),
}
"""What is asked: the path below the run, and the topics that it needs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS, help="of one run of five agents in seven tiers")
    trials = parser.parse_args().trials
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="bench-large-run-") as folder, a_stack(Path(folder)) as stack:
        publish(stack, trials)
        for what, (path, topics) in ASKED.items():
            floor = sum(read(stack, topic) for topic in topics)
            with WebProcess(stack, Path(folder)) as web:
                first, again = (seconds(web, path) for _ in range(2))
            with WebProcess(stack, Path(folder)) as web, ask(web, "updates"):
                time.sleep(VIEWED_SECONDS)
                viewed = seconds(web, path)
            rows.append([what, *(f"{took:.2f}" for took in (first, viewed, again)), f"{first / floor:.1f}"])
    print(f"{trials:,} trials, seconds")
    print(table([["", "first", "viewed", "again", "x"], *rows]))


def publish(stack: Settings, trials: int) -> None:
    """Publish the run; on return a worker has folded all of it."""
    with ThreadedPublisher(stack) as publisher:
        for line in events(trials, runs=1):
            event = orjson.loads(line) | {"trial_name": f"trial-{line[:12].hex()}"}
            if not event["resolved"]:
                event |= {
                    "failure_mode": "agent_timeout",
                    "message": f"TimeoutError: after {event['cost_usd']} s",
                }
            publisher.send(Outgoing(RUN.encode(), orjson.dumps(event)))
        publisher.flush()
    with StateReader(stack) as reader:
        reader.wait_for(RUN, lambda run: run.progress.done == trials, timeout_seconds=600)


def read(stack: Settings, topic: str) -> float:
    """How long it takes to read the run's partition of a topic."""
    began = time.monotonic()
    for _ in read_topic(stack, Names(stack.namespace).topic(topic), run_id=RUN):
        pass
    return time.monotonic() - began


def seconds(web: WebProcess, path: str) -> float:
    """How long the server takes for an answer."""
    began = time.monotonic()
    with ask(web, path) as answer:
        answer.read()
    return time.monotonic() - began


def ask(web: WebProcess, path: str) -> Any:
    """The answer to a path below the run, open."""
    return urllib.request.urlopen(f"{web.url}/api/runs/{RUN}/{path}", timeout=600)


if __name__ == "__main__":
    main()
