"""Make an event fit the schema: what does not fit is left out and named, never guessed at.

Every event of a connector or a hook passes here, so this is also where secrets leave its texts
(:mod:`streamer.sources.redaction`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError

from streamer.schemas.base import METRIC_NAME
from streamer.schemas.events import EVENT
from streamer.schemas.identity import UNKNOWN
from streamer.schemas.limits import MAX_METRIC_NAME_CHARACTERS, MAX_METRICS, MAX_RECORD_BYTES
from streamer.sources.redaction import safe_texts

SLOT = frozenset({"type", "run_id", "shard", "task_id", "attempt", "agent", "model", "tier", "subtest"})
"""Fields that say what an event is about: without one of them it would be about something else (R17)."""

_DEFAULTS = {"shard": "", "attempt": 1, "agent": UNKNOWN, "model": UNKNOWN}

ROOM_BYTES = MAX_RECORD_BYTES - 1024
"""Size of an event as it is made here: it may yet get a longer revision."""

_SHOWN = 60
_METRICS_SHOWN = 3

_is_metric_name = re.compile(METRIC_NAME.removesuffix("$")).fullmatch


def fit_event(event: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """The event with only the fields that fit, and field to reason for those that do not.

    None instead of the event if a field that says what it is about (its task, say) does not fit. Of `metrics`
    only the entries that do not fit are left out.

    >>> fit_event({"type": "trial_result", "run_id": "r", "task_id": "t", "input_tokens": -5})[0]
    {'type': 'trial_result', 'run_id': 'r', 'task_id': 't'}
    """
    event, partly = safe_texts(event)
    event, odd = _with_fitting_metrics(event)
    misfits = {name: reason for name, value in event.items() if (reason := _not_json(value))}
    kept = {name: value for name, value in event.items() if name not in misfits}
    misfits.update(_schema_errors(kept))
    if SLOT & misfits.keys():
        return None, misfits
    kept = {name: value for name, value in kept.items() if name not in misfits}
    misfits.update(_too_large(kept))
    return {name: value for name, value in kept.items() if name not in misfits}, partly | odd | misfits


def slot_of(event: Mapping[str, Any]) -> tuple[Any, ...]:
    """The slot that an event is about, to compare: a field that is left out is as one with its default.

    >>> slot_of({"task_id": "t"}) == slot_of({"task_id": "t", "shard": "", "attempt": 1})
    True
    """
    return tuple(event.get(name, _DEFAULTS.get(name)) for name in sorted(SLOT - {"type"}))


def _with_fitting_metrics(event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The event with the metrics of its trial that fit, the first of them by name if there are too many."""
    metrics = event.get("metrics")
    if event.get("type") != "trial_result" or not isinstance(metrics, dict):
        return event, {}
    fitting = sorted(name for name, value in metrics.items() if _is_metric(name, value))[:MAX_METRICS]
    lost = [name for name in metrics if name not in fitting]
    if not lost:
        return event, {}
    shown = ", ".join(f"{_shown(name)}: {_shown(metrics[name])}" for name in lost[:_METRICS_SHOWN])
    reason = (
        f"{shown}{', ...' if len(lost) > _METRICS_SHOWN else ''}: left out. Allowed are {MAX_METRICS} finite "
        f"numbers, named with 1 to {MAX_METRIC_NAME_CHARACTERS} letters, digits and _ . / -"
    )
    kept = {name: metrics[name] for name in fitting}
    return {name: value for name, value in event.items() if name != "metrics"} | (
        {"metrics": kept} if kept else {}
    ), {"metrics": reason}


def _is_metric(name: Any, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_name = (
        isinstance(name, str) and len(name) <= MAX_METRIC_NAME_CHARACTERS and bool(_is_metric_name(name))
    )
    return is_name and is_number and math.isfinite(value)


def _too_large(event: dict[str, Any]) -> dict[str, str]:
    """The largest fields that the event has to lose to fit a record; ids are short."""
    left = len(orjson.dumps(event))
    if left <= ROOM_BYTES:
        return {}
    found = {}
    sizes = {name: len(orjson.dumps(value)) for name, value in event.items() if name not in SLOT}
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if left <= ROOM_BYTES:
            break
        left -= sizes[name]
        found[name] = (
            f"{_shown(event[name])}: {sizes[name]:,} bytes; an event may have {MAX_RECORD_BYTES:,} in all"
        )
    return found


def _schema_errors(event: dict[str, Any]) -> dict[str, str]:
    """Top-level field to the schema's objection."""
    try:
        EVENT.validate_json(orjson.dumps(event))
    except ValidationError as error:
        found: dict[str, str] = {}
        for problem in error.errors(include_url=False, include_context=False):
            location = problem["loc"]
            name = str(location[1]) if len(location) > 1 else "type"
            found.setdefault(name, f"{_shown(event.get(name))}: {problem['msg']}")
        return found
    return {}


def _not_json(value: Any) -> str | None:
    """Why a value cannot travel as JSON, or None if it can."""
    if _holds_non_finite(value):
        return f"{_shown(value)}: not a finite number"
    try:
        orjson.dumps(value)
    except (TypeError, ValueError) as error:
        return f"{_shown(value)}: {error}"
    return None


def _holds_non_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_non_finite, value.values()))
    if isinstance(value, list):
        return any(map(_holds_non_finite, value))
    return isinstance(value, float) and not math.isfinite(value)


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
