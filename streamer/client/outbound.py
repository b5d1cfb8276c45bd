"""What code may hand over to be published, and how it is told that something is no event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from schemas.decode import Reason, shown
from schemas.events import Event

AnEvent: TypeAlias = Event | Mapping[str, Any]
"""A model of `schemas.events`, or a mapping with the same fields."""

Instant: TypeAlias = datetime | str
"""A time with a zone: an aware datetime, or RFC 3339."""


class InvalidEvent(ValueError):
    """The event is none and is not sent; events published before and after it are not touched.

    Attributes:
        code: stable, for programs; see `schemas.decode.Reason`.
        run_id: of the event, None if it names none.
        task_id: likewise.
    """

    def __init__(self, reason: Reason, run_id: str | None = None, task_id: str | None = None) -> None:
        named = (("run", run_id), ("task", task_id))
        of = ", ".join(f"{kind} {shown(name)}" for kind, name in named if name is not None)
        super().__init__(
            f"{of}: {reason.code}: {reason.message}" if of else f"{reason.code}: {reason.message}"
        )
        self.code = reason.code
        self.run_id = run_id
        self.task_id = task_id


class InvalidEvents(ValueError):
    """Some of what was published was no event; raised when the publisher is closed.

    Attributes:
        count: how many there were.
        first: the first ones, a hundred at most.
    """

    def __init__(self, count: int, first: Sequence[InvalidEvent], kept: Path) -> None:
        super().__init__(
            f"{count:,} published events were invalid and not sent; all others were not touched. The first: "
            f"{first[0]} The invalid ones are in {kept}; correct them and publish them again. To be told of "
            "each one at once instead: TrialPublisher(on_invalid=...)"
        )
        self.count = count
        self.first = tuple(first)


class TrialFields(TypedDict, total=False):
    """What a `trial_result` may hold besides run and task; `schemas.events.TrialResult` says what each is."""

    schema_version: int
    shard: str
    attempt: int
    agent: str | None
    model: str | None
    agent_index: int | None
    tier: str | None
    subtest: str | None
    revision: int
    trial_id: str | None
    trial_name: str | None
    harness: str | None
    resolved: bool | None
    failure_mode: str | None
    score: float | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost_usd: float | None
    duration_seconds: float | None
    started_at: Instant | None
    finished_at: Instant | None
    trajectory_length: int | None
    tests: Mapping[str, Any] | None
    snapshot: Mapping[str, Any] | None
    claimed: Mapping[str, Any] | None
    speedup_percentage: float | None
    benchmarks: Mapping[str, Any] | None


class PlanFields(TypedDict, total=False):
    """What a `run_started` may hold besides the run; see `schemas.events.RunStarted`."""

    schema_version: int
    revision: int
    harness: str | None
    started_at: Instant | None
    tasks: Sequence[str] | int | None
    attempts: int | None
    agent_models: Sequence[str] | None
    tiers: Sequence[str] | None
    subtests: Mapping[str, int] | None
    baseline_tier: str | None
    baselines: Sequence[str] | None
    judged: bool | None
    infrastructure_failures: Sequence[str] | None
    grading_profile: str | None
    project: str | None
    benchmark: str | None
    benchmark_version: str | None
    display_name: str | None
    labels: Mapping[str, str] | None


class FinishFields(TypedDict, total=False):
    """What a `run_finished` may hold besides the run; see `schemas.events.RunFinished`."""

    schema_version: int
    revision: int
    finished_at: Instant | None
    status: str | None


class RetractionFields(TypedDict, total=False):
    """What a `trial_retracted` may hold besides run, task and revision."""

    schema_version: int
    shard: str
    attempt: int
    agent: str | None
    model: str | None
    tier: str | None
    subtest: str | None
    reason: str | None
