"""Runs that the page is tried with: one that begins, six agents half done, thirty agents, hostile names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from random import Random
from typing import Any

from tests.support.events import Event, a_plan, a_start, a_trial

ONE, SIX, THIRTY, HOSTILE = "one", "six", "thirty", "hostile"
TIERS = tuple(f"T{number}" for number in range(7))
HOURS = 17
"""How long the large run took."""

TRIALS_OF_THIRTY = 10_080
MATRIX_AGENTS, MATRIX_TASKS = 60, 500

NAMES = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "\u202eevil\u202c",
    "'\"`${1}&amp;|*_[x](y)",
    "long-" + "x" * 100,
)


def one_running(now: datetime) -> Iterator[Event]:
    """A run of ten tasks whose first trial has run for twelve minutes."""
    start = now - timedelta(minutes=12)
    yield a_plan(
        run_id=ONE, tasks=10, attempts=1, started_at=start.isoformat(), agent_models=["terminus:gpt-5"]
    )
    yield a_start(run_id=ONE, started_at=start.isoformat(), position=0)
    yield a_start(run_id=ONE, task_id="task-2", started_at=now.isoformat(), position=1)


def six_half_done(now: datetime, tasks: int = 80) -> Iterator[Event]:
    """Six agents on the same shuffled tasks, half of them done, eight trials of each agent running."""
    random = Random(21)
    start = now - timedelta(hours=5)
    order = [f"task-{number:02}" for number in range(tasks)]
    models = ("claude-opus-4-5", "gpt-5", "gemini-3-pro", "qwen3-coder", "glm-4.6", "gpt-5-mini")
    labels = [f"agent-{number}:{model}" for number, model in enumerate(models)]
    plan = {"tasks": order, "attempts": 1, "order": order, "order_kind": "shuffled", "agent_models": labels}
    yield a_plan(
        run_id=SIX, benchmark="demo-bench", display_name="Six agents", started_at=start.isoformat(), **plan
    )
    for number, model in enumerate(models):
        skill, price = 0.75 - 0.09 * number, 1.2 - 0.18 * number
        free = [0.0] * 8
        for position, task in enumerate(order):
            place = free.index(min(free))
            begun, seconds = free[place], random.lognormvariate(7.6, 0.6)
            free[place] += seconds
            at = {"task_id": task, "agent": f"agent-{number}", "model": model, "run_id": SIX}
            started = start + timedelta(seconds=begun)
            if started > now:
                break
            yield a_start(**at, started_at=started.isoformat(), position=number + 6 * position)
            ended = started + timedelta(seconds=seconds)
            if ended <= now:
                cost = round(price * random.lognormvariate(-1, 0.4), 4)
                times = {"started_at": started.isoformat(), "finished_at": ended.isoformat()}
                passed = random.random() < skill
                yield a_trial(**at, **times, resolved=passed, cost_usd=cost, duration_seconds=seconds)


def thirty_agents(now: datetime, tasks: int = 48) -> Iterator[Event]:
    """30 agents, 7 tiers and 48 tasks: 10,080 trials in 17 hours, all published at the end."""
    random = Random(30)
    start = now - timedelta(hours=HOURS + 1)
    labels = [f"agent-{number:02}:model-{number:02}" for number in range(30)]
    plan = {"tasks": tasks, "attempts": 1, "tiers": list(TIERS), "agent_models": labels}
    named = {"benchmark": "big-bench", "display_name": "Thirty agents"}
    yield a_plan(run_id=THIRTY, started_at=start.isoformat(), **named, **plan)
    for agent, number, task in product(range(30), range(len(TIERS)), range(tasks)):
        ended = start + timedelta(seconds=random.random() * HOURS * 3600)
        who = {"agent": f"agent-{agent:02}", "model": f"model-{agent:02}"}
        what = {"tier": TIERS[number], "task_id": f"task-{task:02}"}
        yield a_trial(
            run_id=THIRTY,
            **who,
            **what,
            failure_mode="unset",
            resolved=random.random() < 0.2 + 0.018 * agent + 0.02 * number,
            cost_usd=round(0.1 + random.random() * (1 + agent), 4),
            duration_seconds=300.0,
            finished_at=ended.isoformat(),
        )


def large_matrix() -> dict[str, Any]:
    """An answer of `/api/runs/{run}/matrix` with 60 agents and 500 tasks, two trials a cell, some running."""
    agents = [f"agent-{number}:model" for number in range(MATRIX_AGENTS)]

    def cells(task: int) -> list[list[int | None]]:
        of = range(MATRIX_AGENTS)
        return [[2, (7 * task + agent) % 3, 0, int((task + agent) % 11 == 0), None] for agent in of]

    fields = {"tier": None, "pass_rate": 0.5, "disagreement": 0}
    tasks = [{"task_id": f"t{task}", **fields, "cells": cells(task)} for task in range(MATRIX_TASKS)]
    return {"metric": "outcome", "agents": agents, "tasks": tasks, "low": None, "high": None}


def hostile_names(now: datetime) -> Iterator[Event]:
    """Names that would do harm, had they a chance to."""
    run = {
        "run_id": HOSTILE,
        "labels": {"<i>k</i>": "<u>v</u>"},
        "tiers": list(NAMES),
        "benchmark": "<s>b</s>",
    }
    yield a_plan(**run, display_name="<b>bold</b>/\u202erun", tasks=list(NAMES))
    for name in NAMES:
        for task in NAMES:
            names = {"agent": name, "model": name, "tier": name, "task_id": task, "failure_mode": name}
            yield a_trial(run_id=HOSTILE, **names, resolved=False, score=0.5, finished_at=now.isoformat())


SETS = (one_running, six_half_done, hostile_names, thirty_agents)
"""All of them, as of a moment."""


def lines_of(events: Iterator[Event]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]
