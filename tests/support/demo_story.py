"""The demo's events in the order in which they come, without waiting: what the fold of each prefix says."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from streamer.client.folded import answers_of
from streamer.client.queries import RunAnswers
from streamer.folding.fold import Pipeline, fold_records
from streamer.schemas.wire import records_of_lines
from streamer.sources.base import ConvertReport
from streamer.sources.convert import SourceRun, convert_part, convert_plan, discover, sources_for
from streamer.terminal.demo import JUDGE_SECONDS, OPTIONS, RUN, judged, write_benchmark

Event = dict[str, Any]

START = datetime(2026, 1, 2, tzinfo=UTC)
"""When the simulated job begins."""


def events_of(directory: Path) -> list[Event]:
    """What tail and judge publish of the benchmark: each trial as its files become complete.

    Nobody waits in between, so the trial that crashes is seen before the harness deletes it.
    """
    root = directory / RUN
    result: list[Event] = []

    def written(path: Path) -> None:
        if path == root / "lock.json":
            result.extend(convert_plan(the_job(root), OPTIONS, ConvertReport()))
        elif path.parent != root and path.name in ("lock.json", "result.json"):
            result.extend(convert_part(job(), path.parent, OPTIONS, ConvertReport()))

    job = cache(lambda: the_job(root))
    write_benchmark(root, START, lambda _: None, written, fast=True)
    *_, finished = convert_plan(the_job(root), OPTIONS, ConvertReport())
    return [*with_judge(result), finished]


def the_job(root: Path) -> SourceRun:
    """The one run in the directory."""
    [run], _, _ = discover([root], sources_for("harbor"), OPTIONS)
    return run


def with_judge(events: Sequence[Event]) -> Iterator[Event]:
    """The events, and each result again with its score, as many seconds after its end as the judge takes."""
    waiting: deque[tuple[datetime, Event]] = deque()
    for event in events:
        if event["type"] == "trial_result":
            ended = datetime.fromisoformat(event["finished_at"])
            while waiting and waiting[0][0] <= ended:
                yield judged(waiting.popleft()[1])
            waiting.append((ended + timedelta(seconds=JUDGE_SECONDS), event))
        yield event
    yield from (judged(event) for _, event in waiting)


def looks(events: Sequence[Event], step: int) -> list[RunAnswers]:
    """How the run stands after every so many events, and at the end."""
    result: list[RunAnswers] = []

    def look(pipeline: Pipeline, *_: object) -> None:
        result.append(answers_of(pipeline.run(RUN)))

    fold_records(records_of_lines(map(orjson.dumps, events)), step=step, after=look)
    return result
