"""Trace one trial event: `python -m benchmarks.trace_event [--worker] [--json]`.

The script folds trials of one run until everything is warm, then one more under `sys.setprofile`. It prints,
step by step, how many calls that event takes, in how many product files, and how often control moves from one
file to another. A call is one entered Python frame; the loops over metrics are most of them.

By default the event goes through the core alone. With `--worker` it goes through the agent of a worker:
from the fetched batch to the records for Kafka, the commands for Redis, and the batch that is done. Kafka and
Redis are recordings (`benchmarks/one_worker.py`).

The fewer files an event touches, the less a reader must know to follow it. At commit befa049 this event
touched 34 files of the core, at a3e59d61 36. The test of this module allows 17, and 25 with a worker.

To trace another version of the code, put its tree first on the path:
`PYTHONPATH=/path/to/that/tree python benchmarks/trace_event.py`. A renamed step is looked for under the names
in STEPS.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

RUN = "traced-run"
WARM_TRIALS = 20
TASKS = 40
PRODUCT = "streamer/"
STEPS = {
    "save": ("page_writes", "pages", "take_pages"),
    "summarise": ("cut", "update", "summarise", "take_changes"),
}
"""Step, and the names that its method may have: of the pipeline, which takes the run's id, or of the run."""


@dataclass
class Step:
    """What one step of the event did.

    Attributes:
        name: `fold`, or as in STEPS; in the worker as in `OneWorker.process`.
        calls: Python frames entered in product files.
        moves: calls whose file differs from the call before.
        files: product files, from the root of the tree.
    """

    name: str
    calls: int = 0
    moves: int = 0
    files: set[str] = field(default_factory=set)


def an_event(number: int) -> bytes:
    """A trial with a tier, a judge's score and a cost, as a harness publishes it."""
    trial = {
        "type": "trial_result",
        "schema_version": 1,
        "run_id": RUN,
        "task_id": f"task-{number}",
        "attempt": 1,
        "agent": "terminus",
        "model": "gpt-5",
        "tier": "T1",
        "subtest": "01",
        "resolved": number % 2 == 0,
        "score": 0.5 + number / 100,
        "cost_usd": 0.25 + number / 1000,
        "input_tokens": 1000 + number,
        "output_tokens": 100 + number,
        "duration_seconds": 30.5 + number,
        "finished_at": f"2026-01-02T03:04:{number % 60:02d}Z",
    }
    return json.dumps(trial).encode()


def a_plan() -> bytes:
    """The plan of the run."""
    plan = {"type": "run_started", "run_id": RUN, "tasks": TASKS, "attempts": 1, "tiers": ["T1"]}
    return json.dumps(plan).encode()


def step_of(pipeline: Any, name: str) -> Callable[[], Any]:
    """A step of the traced run but the first, by the first of its names that the pipeline or the run has.

    Raises:
        SystemExit: a step has none of its names; add the new one to STEPS.
    """
    for method in STEPS[name]:
        if hasattr(pipeline, method):
            return partial(getattr(pipeline, method), RUN)
    run = pipeline.run(RUN)
    for method in STEPS[name]:
        if hasattr(run, method):
            result: Callable[[], Any] = getattr(run, method)
            return result
    raise SystemExit(f"no method for {name!r}: neither the pipeline nor the run has one of {STEPS[name]}")


class Tracer:
    """Counts what is called in product files, for the step that has begun.

    Args:
        root: the tree that holds the product.

    Attributes:
        steps: in the order in which they began.
    """

    def __init__(self, root: Path) -> None:
        self.steps: dict[str, Step] = {}
        self._prefix = f"{root}/"
        self._last = ""

    def begin(self, name: str) -> None:
        """What is called from now on belongs to this step."""
        self._step = self.steps.setdefault(name, Step(name))
        self._last = ""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is called here."""
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(self._prefix + PRODUCT):
            self._step.calls += 1
            self._step.moves += bool(self._last) and file != self._last
            self._step.files.add(file.removeprefix(self._prefix))
            self._last = file


def trace() -> list[Step]:
    """Warm the pipeline up, then trace one more event through it."""
    package = importlib.import_module("streamer.folding.fold")
    root = Path(str(package.__file__)).parents[2]
    pipeline = package.Pipeline(writer="traced")
    record_class = importlib.import_module("streamer.schemas.wire").Record
    values = [a_plan(), *(an_event(number) for number in range(WARM_TRIALS + 1))]
    records = [record_class(value, offset, 1_700_000_000_000) for offset, value in enumerate(values)]
    for record in records[:-1]:
        pipeline.fold([record])
        for name in STEPS:
            run_to_its_end(step_of(pipeline, name))
    tracer = Tracer(root)
    for name in ("fold", *STEPS):
        work = partial(pipeline.fold, records[-1:]) if name == "fold" else step_of(pipeline, name)
        tracer.begin(name)
        with tracer.counting():
            run_to_its_end(work)
    return list(tracer.steps.values())


def trace_worker() -> list[Step]:
    """Warm a worker up, then trace one more event through it.

    Raises:
        SystemExit: the event was not published, or not done.
    """
    return asyncio.run(_trace_worker())


async def _trace_worker() -> list[Step]:
    package = importlib.import_module("streamer.worker.agents")
    worker = importlib.import_module("benchmarks.one_worker").OneWorker()
    tracer = Tracer(Path(str(package.__file__)).parents[2])
    events = [a_plan(), *(an_event(number) for number in range(WARM_TRIALS + 1))]
    done = await worker.process(events, tracer.begin, tracer.counting())
    if not done or worker.sink.away:
        raise SystemExit("the traced event was not published; see benchmarks/one_worker.py")
    return list(tracer.steps.values())


def run_to_its_end(work: Callable[[], Any]) -> None:
    """Call it; a generator does its work only when it is read."""
    returned = work()
    if isinstance(returned, Iterator):
        for _ in returned:
            pass


def report(steps: list[Step]) -> dict[str, Any]:
    """The trace as JSON holds it."""
    files = {file for step in steps for file in step.files}
    return {
        "steps": [
            {"step": step.name, "calls": step.calls, "files": len(step.files), "moves": step.moves}
            for step in steps
        ],
        "calls": sum(step.calls for step in steps),
        "files": sorted(files),
    }


def main() -> None:
    """Print the trace as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worker", action="store_true", help="trace it through a worker, not the core alone")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    arguments = parser.parse_args()
    result = report(trace_worker() if arguments.worker else trace())
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'step':<12}{'calls':>7}{'files':>7}{'moves':>7}")
    for step in result["steps"]:
        print(f"{step['step']:<12}{step['calls']:>7}{step['files']:>7}{step['moves']:>7}")
    print(f"{'together':<12}{result['calls']:>7}{len(result['files']):>7}\n")
    print(*result["files"], sep="\n")


if __name__ == "__main__":
    main()
