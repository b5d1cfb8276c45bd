"""A run as readers get it, from the values of its keys.

That is the run with its groups and its trials in flight, or with the comparison of its agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from streamer.client.lifecycle import is_over
from streamer.client.results import BoardRun, ComparedRun, RunSnapshot, UnreadableSummary
from streamer.redis.entry import COMPARISONS, IN_FLIGHT, TASKS, as_text
from streamer.redis.keys import Keys
from streamer.schemas.base import Message
from streamer.schemas.comparison import TASK_OUTCOMES, RunComparison, TaskOutcomes
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary

SUMMARIES: dict[str, type[RunSummary] | type[AgentModelSummary] | type[TierSummary]] = {
    "run": RunSummary,
    "agent_model": AgentModelSummary,
    "tier": TierSummary,
}
"""By the first word of the key suffix."""

OF_COMPARISON = ("run", COMPARISONS, TASKS)
"""The kinds of keys that `compared_run` needs."""

Stored = TypeVar("Stored", bound=Message)


def snapshot_of(keys: Keys, run_id: str, stored: Mapping[str, Any]) -> RunSnapshot | None:
    """The snapshot from the values by key suffix, None where a key is not there; None: there is no such run.

    Raises:
        UnreadableSummary: a value is not what this version understands.
    """
    found: dict[str, list[Any]] = {kind: [] for kind in SUMMARIES}
    for suffix, value in stored.items():
        kind = suffix.partition(":")[0]
        if kind in SUMMARIES and value is not None:
            found[kind].append(parsed(SUMMARIES[kind], keys.of_run(run_id, suffix), value))
    if not found["run"]:
        return None
    agents = sorted(found["agent_model"], key=lambda agent: agent.agent_model)
    tiers = sorted(found["tier"], key=lambda tier: (tier.tier, tier.agent_model or ""))
    in_flight = _in_flight(keys.in_flight(run_id), stored.get(IN_FLIGHT) or [])
    return RunSnapshot(found["run"][0], agents, tiers, in_flight)


def kinds_of(run: RunSummary) -> tuple[str, ...]:
    """The kinds of keys that leaderboards read of a run; tasks are pooled once it is over."""
    return ("run", "agent_model", TASKS) if is_over(run) else ("run", "agent_model")


def board_run(keys: Keys, run_id: str, stored: Mapping[str, Any]) -> BoardRun | None:
    """The run as leaderboards read it, from the values by key suffix; None: it was deleted in the meantime.

    Raises:
        UnreadableSummary: a value is not what this version understands.
    """
    found = snapshot_of(keys, run_id, stored)
    if found is None:
        return None
    return BoardRun(found.run, found.agents, _tasks(keys.tasks(run_id), stored.get(TASKS) or []))


def compared_run(keys: Keys, run_id: str, stored: Mapping[str, Any]) -> ComparedRun | None:
    """The agents of the run compared, from the values by key suffix; None: there is no such run.

    Raises:
        UnreadableSummary: a value is not what this version understands.
    """
    if stored.get("run") is None:
        return None
    value = stored.get(COMPARISONS)
    run = parsed(RunSummary, keys.run(run_id), stored["run"])
    comparison = None if value is None else parsed(RunComparison, keys.comparisons(run_id), value)
    return ComparedRun(run, comparison, _tasks(keys.tasks(run_id), stored.get(TASKS) or []))


def parsed(kind: type[Stored], key: str, value: bytes) -> Stored:
    """The summary, the comparison or the trial in flight that Redis holds under this key.

    Raises:
        UnreadableSummary: the value is nothing of this kind.
    """
    try:
        return kind.model_validate_json(value)
    except ValidationError as error:
        raise UnreadableSummary(key, error) from error


def _tasks(key: str, stored: Sequence[bytes | str]) -> dict[str, TaskOutcomes]:
    """The tasks of a run by task key, from the fields and values of the hash under `key`."""
    try:
        pairs = zip(stored[::2], stored[1::2], strict=True)
        found = {as_text(task): TASK_OUTCOMES.validate_json(value) for task, value in pairs}
    except ValidationError as error:
        raise UnreadableSummary(key, error) from error
    return dict(sorted(found.items()))


def _in_flight(key: str, stored: Sequence[bytes]) -> list[TrialInFlight]:
    """From the fields and values of the hash."""
    return sorted((parsed(TrialInFlight, key, value) for value in stored[1::2]), key=_longest_first)


def _longest_first(trial: TrialInFlight) -> tuple[bool, datetime, str]:
    start = trial.started_at
    return (start is None, start or datetime.max.replace(tzinfo=UTC), trial.model_dump_json())
