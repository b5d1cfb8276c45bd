"""Builders of events, and short ways to fold them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamer.folding.fold import Folded, Pipeline
from streamer.folding.slots import PageWrite
from streamer.schemas.base import digest_of
from streamer.schemas.wire import Record

Event = dict[str, Any]


SLOT = {"run_id": "run-1", "task_id": "task-1", "agent": "terminus", "model": "gpt-5"}
"""Of one trial; in an event of it, override what the test is about."""


def a_trial(**fields: Any) -> Event:
    """A resolved trial."""
    return {"type": "trial_result"} | SLOT | {"resolved": True} | fields


def a_plan(**fields: Any) -> Event:
    """A run_started event."""
    return {"type": "run_started", "run_id": "run-1"} | fields


def a_retraction(**fields: Any) -> Event:
    """A retraction of the slot that `a_trial` fills."""
    return {"type": "trial_retracted"} | SLOT | {"revision": 0} | fields


def a_start(**fields: Any) -> Event:
    """A start of the trial that `a_trial` is the result of."""
    return {"type": "trial_started"} | SLOT | fields


def a_late_score(**fields: Any) -> Event:
    """A trial_scored event of the slot that `a_trial` fills."""
    return {"type": "trial_scored"} | SLOT | fields


def an_end(**fields: Any) -> Event:
    """A run_finished event."""
    return {"type": "run_finished", "run_id": "run-1"} | fields


def a_deletion(**fields: Any) -> Event:
    """A run_deleted event."""
    return {"type": "run_deleted", "run_id": "run-1", "revision": 0} | fields


def records(events: Iterable[Event | bytes]) -> list[Record]:
    """Records at offsets 0, 1, 2, ... with a fixed broker time."""
    values = (event if isinstance(event, bytes) else json.dumps(event).encode() for event in events)
    return [Record(value, offset, timestamp=1_700_000_000_000) for offset, value in enumerate(values)]


def folded(events: Iterable[Event | bytes], **pipeline: Any) -> tuple[Pipeline, Folded]:
    """A pipeline that has folded the events, and what the fold reported."""
    built = Pipeline(**pipeline)
    return built, built.fold(records(events))


def reread(pages: Iterable[PageWrite], writer: str = "new", **pipeline: Any) -> Pipeline:
    """A pipeline that takes over from these state pages, as a worker does that recovers."""
    built = Pipeline(writer=writer, **pipeline)
    for page in pages:
        if page.value is not None:
            built.load_page(page.key, page.value)
    for run_id in built.runs():
        built.loaded(run_id)
    return built


def summaries(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """Topic key and kind -> summary, of every run."""
    result = {}
    for run_id in pipeline.runs():
        for change in pipeline.run(run_id).summaries():
            assert change.summary is not None
            assert json.loads(change.value or b"") == change.summary
            assert digest_of(change.summary) == change.digest == change.summary["digest"]
            result[f"{change.kind} {change.key}"] = change.summary
    return result


def digests(pipeline: Pipeline) -> dict[str, str]:
    """Topic key and kind -> digest: the answer, and nothing of the way to it."""
    return {key: summary["digest"] for key, summary in summaries(pipeline).items()}


def summarised(events: Iterable[Event | bytes]) -> dict[str, dict[str, Any]]:
    """Summaries of the events folded in this order."""
    return summaries(folded(events)[0])
