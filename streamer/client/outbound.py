"""An event as code hands it over -> the checked record that goes to the topic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypedDict

from schemas.canonical import canonical_json
from schemas.decode import Reason, decode
from schemas.events import Event
from streamer.client.publish import Outgoing

AnEvent: TypeAlias = Event | Mapping[str, Any]
"""A model of `schemas.events`, or a mapping with the same fields."""

Instant: TypeAlias = datetime | str
"""A time with a zone: an aware datetime, or RFC 3339."""


class InvalidEvent(ValueError):
    """The event is none, and was not taken; events published before and after it are not touched.

    Attributes:
        code: stable, for programs; see `schemas.decode.Reason`.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"{reason.code}: {reason.message}")
        self.code = reason.code


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


def checked(event: AnEvent) -> Outgoing:
    """The record of an event, serialised here and now: what becomes of the mapping later does not matter.

    Raises:
        TypeError: it is neither a mapping nor a model.
        InvalidEvent: the worker would reject it, or it holds what JSON cannot.

    >>> checked({"type": "run_finished", "run_id": "r"}).value
    b'{"run_id":"r","type":"run_finished"}'
    >>> checked({"type": "run_finished"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    streamer.client.outbound.InvalidEvent: missing_field: Field 'run_id': Field required...
    """
    if isinstance(event, Event):
        content: Mapping[str, Any] = event.model_dump(mode="json", exclude_unset=True)
    elif isinstance(event, Mapping):
        content = event
    else:
        raise TypeError(
            f"publish() takes an event, a mapping or a model of schemas.events, not {type(event).__name__}"
        )
    value = _serialised(content)
    decoded = decode(value)
    if isinstance(decoded, Reason):
        raise InvalidEvent(decoded)
    if b"null" in value and (where := _not_finite(content)):
        raise InvalidEvent(Reason("not_finite", f"Field {where} is not a finite number; leave it out."))
    return Outgoing(decoded.run_id.encode(), value)


def reread(value: bytes) -> Outgoing | Reason:
    """The record of an event that was serialised before."""
    decoded = decode(value)
    return decoded if isinstance(decoded, Reason) else Outgoing(decoded.run_id.encode(), value)


def _serialised(content: Mapping[str, Any]) -> bytes:
    try:
        return canonical_json(content if isinstance(content, dict) else dict(content))
    except TypeError as error:  # orjson's JSONEncodeError
        message = f"The event cannot be written as JSON: {error}. Use dicts, lists, texts, numbers, times."
        raise InvalidEvent(Reason("not_json", message)) from None


def _not_finite(value: Any, where: str = "") -> str | None:
    """Path of the first float that JSON would turn into null, None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ascii(where)
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for name, part in items:
        if found := _not_finite(part, f"{where}.{name}" if where else str(name)):
            return found
    return None
