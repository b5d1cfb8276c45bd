"""Two runs with the same plan, for tests of what a gate reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamer.folding.pairs import Contestant
from streamer.folding.pairs.contest import Matched
from streamer.schemas.base import GroupId
from tests.support.events import Event, a_plan, a_trial, folded

TASKS = [f"t{number:02}" for number in range(20)]
ORDER = TASKS[::3] + TASKS[1::3] + TASKS[2::3]


def the_plan(run: str, **fields: Any) -> Event:
    """Twenty tasks in a shuffled order, named."""
    plan = {"tasks": TASKS, "attempts": 1, "order": ORDER, "order_kind": "shuffled"}
    return a_plan(run_id=run, **plan | fields)


def trial(run: str, agent: str, task: str, passed: bool | None, **fields: Any) -> Event:
    return a_trial(run_id=run, agent=agent, model="m", task_id=task, resolved=passed, **fields)


def side(events: Iterable[Event], run: str, agent: str, **options: Any) -> Contestant:
    """One agent of a run that is folded by itself."""
    mine = [event for event in events if event["run_id"] == run]
    return Contestant(folded(mine)[0].run(run).state, GroupId(None, agent, "m"), **options)


def both(events: Iterable[Event], **options: Any) -> Matched:
    """Agent a of run r against agent b of run s."""
    stored = list(events)
    return Matched(side(stored, "r", "a", **options), side(stored, "s", "b", **options))
