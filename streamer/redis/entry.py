"""One key of one run, on its way to Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from streamer.aggregate.changes import InFlightChange, RunUpdate, SummaryChange, TasksChange, unpacked
from streamer.aggregate.keys import COMPARISON
from streamer.redis.keys import Keys
from streamer.schemas.metrics import board_values, planned_means
from streamer.versions import Version

RUN_SUFFIX = "run"
IN_FLIGHT = "in_flight"
TASKS = "tasks"
HASHES = (IN_FLIGHT, TASKS)
"""Suffixes of the keys that are hashes; also in the Lua scripts."""
COMPARISONS = COMPARISON.redis_suffix
DELETED = "deleted"
"""Field of a run's versions that names no key but says when the run was deleted; also in write_run.lua."""

RUN_HEADLINE = {
    "trials": ("trials",),
    "accuracy": ("accuracy",),
    "total_cost": ("total_cost",),
    "provisional": ("provisional",),
    "done": ("progress", "done"),
    "planned": ("progress", "planned"),
}
GROUP_HEADLINE = {
    "trials": ("trials",),
    "accuracy": ("accuracy",),
    "pass_rate": ("statistics", "pass_rate", "mean"),
    "composite_score": ("statistics", "composite_score", "median"),
    "grade": ("grade",),
    "total_cost": ("total_cost",),
    "cost_of_pass": ("cost_of_pass",),
    "mean_speedup": ("formulacode", "mean_speedup"),
    "agent_advantage": ("formulacode", "agent_advantage"),
    "provisional": ("provisional",),
}


@dataclass(frozen=True, slots=True)
class KeyState:
    """The value that one key should hold, from one version on.

    Attributes:
        run_id: the run, not encoded.
        suffix: the key's suffix within the run: `run`, `agent_model:A:M`, `tier:T`, `tier:T:A:M`,
            `comparisons`, `in_flight`, `tasks`.
        version: (epoch, state_version).
        value: the summary's bytes, or the JSON list of the fields and values of a hash. None: tombstone.
        summary: what `value` parses to; None: tombstone, or no summary.
        news: whether history and subscribers hear of it.
    """

    run_id: str
    suffix: str
    version: Version
    value: bytes | None
    summary: Mapping[str, Any] | None
    news: bool

    @property
    def kind(self) -> str:
        """`run`, `agent_model`, `tier`, `comparisons`, `in_flight` or `tasks`."""
        return self.suffix.partition(":")[0]

    @property
    def group(self) -> str:
        """The rest of the suffix: `A:M`, `T`, `T:A:M`, "" for the run."""
        return self.suffix.partition(":")[2]

    def script_arguments(self, keys: Keys) -> tuple[str, bytes, bytes]:
        """The three arguments of write_run.lua: suffix, plan, value."""
        plan: dict[str, Any] = {
            "version": version_text(self.version),
            "deleted": self.value is None,
            "board": self.board(),
        }
        if self.news:
            plan["history"] = self.history_fields()
            plan["update"] = self._update(keys)
        return self.suffix, orjson.dumps(plan), self.value or b""

    def board(self) -> dict[str, str | bool]:
        """METRIC to score as Redis reads it, False: not on the board; empty for all but agent:models."""
        if self.kind != "agent_model" or self.summary is None:
            return {}
        values = board_values(self.summary).items()
        return {metric: False if value is None else repr(value) for metric, value in values}

    def history_fields(self) -> list[str]:
        """Fields and values of the history entry; numbers that are unknown are left out."""
        fields: dict[str, Any] = {"kind": self.kind, "group": self.group}
        fields |= {"epoch": self.version[0], "state_version": self.version[1]}
        if self.summary is None:
            fields["deleted"] = True
        else:
            fields["last_event_at"] = self.summary["last_event_at"]
            headline = RUN_HEADLINE if self.kind == RUN_SUFFIX else GROUP_HEADLINE
            fields |= {name: _at(self.summary, path) for name, path in headline.items()}
            if self.kind != RUN_SUFFIX:
                fields |= planned_means(self.summary)
        texts = {name: _text(value) for name, value in fields.items() if value is not None}
        return [part for pair in texts.items() for part in pair]

    def _update(self, keys: Keys) -> str:
        """The message on the channel `streamer:updates`."""
        message = {
            "run": self.run_id,
            "kind": self.kind,
            "group": self.group,
            "key": keys.of_run(self.run_id, self.suffix),
            "deleted": self.value is None,
            "epoch": self.version[0],
            "state_version": self.version[1],
        }
        return orjson.dumps(message).decode()


def entries_of(update: RunUpdate, *, news: bool) -> list[KeyState]:
    """The Redis side of an update; the hashes come first. They and the comparison are never news."""
    hashes = []
    if update.in_flight is not None:
        fields = {slot: trial.decode() for slot, trial in update.in_flight.trials.items()}
        hashes.append(_hash(IN_FLIGHT, update.in_flight, fields))
    if update.tasks is not None:
        hashes.append(_hash(TASKS, update.tasks, unpacked(update.tasks.packed)))
    told = ((change, news and change.group != COMPARISON) for change in update.summaries)
    return [*hashes, *(entry_of(change, news=is_news) for change, is_news in told)]


def _hash(suffix: str, change: InFlightChange | TasksChange, fields: Mapping[str, str]) -> KeyState:
    """The Redis side of a hash; without fields a tombstone."""
    return KeyState(
        run_id=change.run_id,
        suffix=suffix,
        version=(change.epoch, change.state_version),
        value=orjson.dumps([part for field in fields.items() for part in field]) if fields else None,
        summary=None,
        news=False,
    )


def entry_of(change: SummaryChange, *, news: bool) -> KeyState:
    """The Redis side of a changed summary."""
    return KeyState(
        run_id=change.run_id,
        suffix=change.group.redis_suffix,
        version=(change.epoch, change.state_version),
        value=change.value,
        summary=change.summary,
        news=news,
    )


def last_event_seconds(summary: Mapping[str, Any]) -> float:
    """Unix seconds of the last event folded into the run; 0.0 where it is unknown."""
    at = summary["last_event_at"]
    return datetime.fromisoformat(at).timestamp() if at else 0.0


def version_text(version: Version) -> str:
    """As in the versions hash: `epoch:state_version`."""
    return f"{version[0]}:{version[1]}"


def as_text(value: bytes | str) -> str:
    """A name or value as text; Redis answers in bytes."""
    return value if isinstance(value, str) else value.decode()


def parse_version(text: bytes) -> Version:
    """Inverse of :func:`version_text`."""
    epoch, _, state_version = text.partition(b":")
    return int(epoch), int(state_version)


def _at(summary: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = summary
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
