"""A run whose agents are compared, for tests: its plan, its trials, and what is published of it."""

from __future__ import annotations

import json
import random
from typing import Any

from streamer.schemas.summaries import RunComparison
from tests.support.events import a_plan, a_trial, folded

Event = dict[str, Any]
TASKS = [f"t{number}" for number in range(12)]
ORDER = random.Random(5).sample(TASKS, len(TASKS))
AGENTS = ["a", "b", "c"]
PLAN = a_plan(tasks=TASKS, attempts=1, order=ORDER, order_kind="shuffled", judged=False)
END = {"type": "run_finished", "run_id": "run-1", "revision": 9}


def trial(agent: str, task: str, passed: bool, **more: Any) -> Event:
    return a_trial(task_id=task, agent=agent, model="m", resolved=passed, score=None, **more)


def compared(events: list[Event]) -> Event | None:
    """The comparison of the run; it keeps to its schema."""
    result = [c for c in folded(events)[0].run("run-1").summaries() if c.kind == "comparison"]
    for change in result:
        RunComparison.model_validate_json(change.value or b"")
    return result[0].summary if result else None


def the_comparison(events: list[Event]) -> Event:
    result = compared(events)
    assert result is not None
    return result


def ranks(result: Event) -> dict[str, tuple[int, int] | None]:
    return {one["agent"]: one["rank"] and tuple(one["rank"].values()) for one in result["agents"]}


def tasks_of(events: list[Event]) -> dict[str, Any]:
    tasks = folded(events)[0].run("run-1").comparisons.tasks()
    return {task: json.loads(stored) for task, stored in tasks.items()}
