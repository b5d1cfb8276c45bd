"""What starts and a queue cost: draining results with them, and cutting the summaries of a large run.

    python -m benchmarks.starts [--results N] [--repeats N] [--alone]

This prints what the core alone takes for a result: decode, fold, state pages, scored trials, summaries. To
compare a version that knows no starts, put its tree first on the path and measure results alone:
`PYTHONPATH=/path/to/that/tree python benchmarks/starts.py --alone`. The rows of `make bench` are drains by a
worker.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from itertools import count
from random import Random
from typing import Any

import orjson

from benchmarks.bench_fold import work
from benchmarks.common import Scale, events, quotients, spread, table, turn_about
from benchmarks.drain import drain
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment
from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record

AGENTS, TASKS = 5, 500
"""Agents and tasks of each run that is drained. Its results come in the order of its queue."""

AHEAD = 200
"""So many trials have started and are not over, in all runs together."""

MODEL = "anthropic/claude-sonnet-4"
ALONE = "results alone"
SLOWER_AT_MOST = 1.5
CUT_AGENTS = 30
CUTS = 50
CUT_MILLISECONDS = 5.0


def starts(scale: Scale, sites: Sites) -> Measured:
    """Rows: drains with a queue, and with a start of each trial; the cut of a large run's summaries."""
    number = scale.backlog
    turns = microseconds(scale, sites, backlogs(number))
    alone, queue, started = turns.values()
    cuts, all_cuts = cut_milliseconds(CUTS), cut_milliseconds(CUTS // 10, touched=CUT_AGENTS)
    size = f"a run with {CUT_AGENTS} agents and {TASKS} tasks, half over"
    rows = [
        Row(f"drain of {number:,} results alone, processor time for a result", alone, "us"),
        Row("drain with a shuffled queue, over results alone", quotients(queue, alone), "x"),
        Row(
            "drain with a start of each trial, over the same without starts",
            quotients(started, queue),
            "x",
            "<=",
            SLOWER_AT_MOST,
        ),
        Row(f"cut of what one result changes in {size}", cuts, "ms", "<=", CUT_MILLISECONDS),
        Row(f"cut of what a result of each agent changes in {size}", all_cuts, "ms"),
    ]
    return Measured(rows, {"cpu_microseconds_of_a_result": turns, "cut_milliseconds": cuts})


def backlogs(number: int) -> dict[str, list[bytes]]:
    """The same results alone, with a plan of each run that has its queue, and with a start of each trial."""
    agents, tasks = AGENTS, max(1, min(TASKS, number // AGENTS))
    results = list(results_of(number, agents, tasks))
    plans = [plan_of(run, agents, tasks) for run in dict.fromkeys(result["run_id"] for result in results)]
    cases = {
        ALONE: results,
        "with a queue": plans + results,
        "with a queue and starts": plans + list(with_starts(results)),
    }
    return {name: [orjson.dumps(event) for event in case] for name, case in cases.items()}


def cut_milliseconds(number: int, *, touched: int = 1) -> list[float]:
    """Milliseconds of each of so many cuts: every summary that results of so many agents have changed.

    Half of the trials of a run with CUT_AGENTS agents and TASKS tasks are over, a few are in flight.
    """
    results = list(results_of(CUT_AGENTS * TASKS, CUT_AGENTS, TASKS))
    half = len(results) // 2
    pipeline, offsets = Pipeline(), count()
    before = [plan_of(results[0]["run_id"], CUT_AGENTS, TASKS), *with_starts(results[:half])]
    fold_batch(pipeline, before, offsets)
    run = pipeline.run(results[0]["run_id"])
    run.take_changes()
    taken = []
    for first in range(half, half + number * touched, touched):
        fold_batch(pipeline, results[first : first + touched], offsets)
        began = time.perf_counter()
        cut = run.take_summaries(comparison=False)
        taken.append((time.perf_counter() - began) * 1_000)
        assert len(cut.summaries) > touched
    return taken


def microseconds(scale: Scale, sites: Sites, cases: Mapping[str, Sequence[bytes]]) -> dict[str, list[float]]:
    """Microseconds of a worker's processor time for each result of each backlog.

    The backlogs are drained in turn, so that what disturbs the machine disturbs all of them alike.
    """
    result: dict[str, list[float]] = {name: [] for name in cases}
    with ExitStack() as stack:
        deployments = {name: stack.enter_context(Deployment(sites["kafka"])) for name in cases}
        expected = {name: deployments[name].load(lines) for name, lines in cases.items()}
        for turn in range(scale.warm_up + scale.repeats):
            for name, deployment in deployments.items():
                taken = drain(deployment, expected[name], scale.backlog).cpu_microseconds
                if turn >= scale.warm_up:
                    result[name].append(taken)
    return result


def results_of(number: int, agents: int, tasks: int) -> Iterator[dict[str, Any]]:
    """Results of runs one after the other. The agents of a run take the tasks of its queue in turn."""
    for index, line in enumerate(events(number, tiers=1)):
        run, place = divmod(index, agents * tasks)
        position, agent = divmod(place, agents)
        run_id = f"run-{run:05d}"
        result = orjson.loads(line)
        del result["tier"]
        named = {"run_id": run_id, "task_id": _queue(run_id, tasks)[position], "agent": f"agent-{agent:02d}"}
        yield result | named | {"attempt": 1}


def with_starts(results: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The results, each some time after the start of its trial."""
    slot = ("schema_version", "run_id", "task_id", "attempt", "agent", "model", "started_at")
    positions: Counter[str] = Counter()
    for index in range(-AHEAD, len(results)):
        if index + AHEAD < len(results):
            result = results[index + AHEAD]
            position = {"position": positions[result["run_id"]]}
            positions[result["run_id"]] += 1
            yield {"type": "trial_started"} | {name: result[name] for name in slot} | position
        if index >= 0:
            yield results[index]


def plan_of(run_id: str, agents: int, tasks: int) -> dict[str, Any]:
    """A plan with a shuffled queue."""
    return {
        "type": "run_started",
        "run_id": run_id,
        "tasks": tasks,
        "attempts": 1,
        "agent_models": [f"agent-{agent:02d}:{MODEL}" for agent in range(agents)],
        "order": _queue(run_id, tasks),
        "order_kind": "shuffled",
    }


@cache
def _queue(run_id: str, tasks: int) -> list[str]:
    return Random(run_id).sample([f"task-{task:04d}" for task in range(tasks)], tasks)


def fold_batch(pipeline: Pipeline, batch: Sequence[dict[str, Any]], offsets: Iterator[int]) -> None:
    """Fold events that are all valid."""
    folded = pipeline.fold([Record(orjson.dumps(event), next(offsets)) for event in batch])
    assert not folded.rejections


def main() -> None:
    """Print microseconds of the core for a result, and milliseconds of a cut."""
    parser = argparse.ArgumentParser(description="What starts of trials and a queue cost the core.")
    parser.add_argument("--results", type=int, default=50_000, help="results of each case (50000)")
    parser.add_argument("--repeats", type=int, default=5, help="turns that count (5)")
    parser.add_argument("--alone", action="store_true", help="only results without a plan and without starts")
    options = parser.parse_args()
    cases = {name: partial(work, lines) for name, lines in backlogs(options.results).items()}
    cases = {ALONE: cases[ALONE]} if options.alone else cases
    rows: list[Sequence[object]] = [("what", "median", "from", "to", "unit")]
    for name, seconds in turn_about(cases, options.repeats).items():
        rows.append((name, *spread([one / options.results * 1e6 for one in seconds]).values(), "us"))
    for touched in () if options.alone else (1, CUT_AGENTS):
        taken = cut_milliseconds(CUTS, touched=touched)
        rows.append((f"cut after results of {touched} of {CUT_AGENTS} agents", *spread(taken).values(), "ms"))
    print(table(rows))


if __name__ == "__main__":
    main()
