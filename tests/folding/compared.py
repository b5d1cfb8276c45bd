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
    found = [c for c in folded(events)[0].run("run-1").summaries() if c.kind == "comparison"]
    for change in found:
        RunComparison.model_validate_json(change.value or b"")
    return found[0].summary if found else None


def the_comparison(events: list[Event]) -> Event:
    found = compared(events)
    assert found is not None
    return found


def ranks(found: Event) -> dict[str, tuple[int, int] | None]:
    return {one["agent"]: one["rank"] and tuple(one["rank"].values()) for one in found["agents"]}


def tasks_of(events: list[Event]) -> dict[str, Any]:
    tasks = folded(events)[0].run("run-1").comparisons.tasks()
    return {task: json.loads(held) for task, held in tasks.items()}
