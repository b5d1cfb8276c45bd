"""The comparison of a run's agents, from what Redis holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from streamer.client.results import ComparedRun, UnreadableSummary
from streamer.redis.entry import COMPARISONS, TASKS
from streamer.redis.keys import Keys
from streamer.schemas.comparison import TASK_OUTCOMES, RunComparison, TaskOutcomes
from streamer.schemas.summaries import RunSummary

KINDS = ("run", COMPARISONS, TASKS)
"""The kinds of keys that it needs."""

Parse = Callable[[type[Any], str, bytes], Any]


def compared_run(keys: Keys, run_id: str, stored: Mapping[str, Any], parsed: Parse) -> ComparedRun | None:
    """The answer from the values by key suffix; None: there is no such run.

    Args:
        parsed: reads a published value.

    Raises:
        UnreadableSummary: a value is not what this version understands.
    """
    if stored.get("run") is None:
        return None
    value = stored.get(COMPARISONS)
    run = parsed(RunSummary, keys.run(run_id), stored["run"])
    comparison = None if value is None else parsed(RunComparison, keys.comparisons(run_id), value)
    return ComparedRun(run, comparison, tasks_in(keys.tasks(run_id), stored.get(TASKS) or []))


def tasks_in(key: str, stored: Sequence[bytes | str]) -> dict[str, TaskOutcomes]:
    """The tasks of a run by task key, from the fields and values of the hash under `key`."""
    try:
        pairs = zip(stored[::2], stored[1::2], strict=True)
        found = {_text(task): TASK_OUTCOMES.validate_json(value) for task, value in pairs}
    except ValidationError as error:
        raise UnreadableSummary(key, error) from error
    return dict(sorted(found.items()))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
