"""The demo's events in the order in which they come, without waiting: what the fold of each prefix says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from streamer.cli.demo_benchmark import OPTIONS, RUN, write_benchmark
from streamer.cli.demo_judge import JUDGE_SECONDS, judged
from streamer.client.folded_run import FoldedRun
from streamer.client.results import ComparedRun, RunSnapshot
from streamer.client.run_log import RunLog
from streamer.fold import fold_records
from streamer.pipeline import Pipeline
from streamer.records import records_of_lines
from streamer.sources.convert import ConvertReport, convert_part, convert_plan
from streamer.sources.discover import discover
from streamer.sources.registry import sources_for

Event = dict[str, Any]

START = datetime(2026, 1, 2, tzinfo=UTC)
"""When the simulated job begins."""


def events_of(directory: Path, seed: int | None = None) -> list[Event]:
    """What the tail publishes of the benchmark, trial by trial as its files become complete, and the judge."""
    root = directory / RUN
    found: list[Event] = []

    def written(path: Path) -> None:
        is_new = path.name == "result.json" or path.parent == root
        if path.name not in ("lock.json", "result.json") or (path.parent == root and path.name == "result.json" and found):
            return
        [run], *_ = discover([root], sources_for("harbor"), OPTIONS)
        report = ConvertReport()
        if path.parent == root:
            found.extend(convert_plan(run, OPTIONS, report))
        else:
            found.extend(convert_part(run, path.parent, OPTIONS, report))

    more = {} if seed is None else {"seed": seed}
    write_benchmark(root, START, lambda _: None, written, fast=True, **more)
    [run], *_ = discover([root], sources_for("harbor"), OPTIONS)
    *_, finished = convert_plan(run, OPTIONS, ConvertReport())
    return [*with_judge(found), finished]


def with_judge(events: Sequence[Event]) -> list[Event]:
    """The events, and each result again with its score, as many seconds after its end as the judge takes."""
    due = []
    for place, event in enumerate(events):
        at = datetime.fromisoformat(event.get("finished_at") or event.get("started_at") or START.isoformat())
        due.append((at, place, event))
        if event["type"] == "trial_result":
            due.append((at + timedelta(seconds=JUDGE_SECONDS), place, judged(event)))
    return [event for _, _, event in sorted(due, key=lambda one: one[:2])]


def looks(events: Sequence[Event], step: int) -> Iterator[tuple[RunSnapshot, ComparedRun]]:
    """How the run stands after every so many events, and at the end."""
    found: list[tuple[RunSnapshot, ComparedRun]] = []

    def look(pipeline: Pipeline, *_: object) -> None:
        run = FoldedRun(pipeline.run(RUN), log=None)  # type: ignore[arg-type]
        found.append((run.snapshot(), run.comparison()))

    fold_records(records_of_lines(map(orjson.dumps, events)), step=step, after=look)
    return iter(found)
