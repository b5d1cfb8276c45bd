"""Folded runs as leaderboards read them, without a Redis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from streamer.client.queries import BoardRun
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TasksOfRun, is_over
from tests.support.events import Event, a_plan, a_trial, folded

FINISHED = "2026-01-{day:02}T03:00:00Z"


def a_night(
    run: str, day: int, outcomes: dict[str, str], *, ended: bool = True, **plan: Any
) -> Iterable[Event]:
    """A run of benchmark `tb`: of each agent a letter for each task: `+` passed, `-` did not.

    Args:
        run: id.
        day: of January 2026, on which it ends.
        outcomes: agent to its letters; a blank is no trial.
        ended: it has a `run_finished`.
        plan: fields of its `run_started`.
    """
    yield a_plan(run_id=run, **{"benchmark": "tb"} | plan)
    for agent, letters in outcomes.items():
        for number, letter in enumerate(letters):
            if letter != " ":
                yield a_trial(
                    run_id=run,
                    task_id=f"t{number:02}",
                    agent=agent,
                    model="m",
                    resolved=letter == "+",
                    finished_at=FINISHED.format(day=day),
                    metrics={"reward": 1.0 if letter == "+" else 0.25},
                )
    if ended:
        yield {"type": "run_finished", "run_id": run}


def board_runs(events: Iterable[Event]) -> list[BoardRun]:
    """Every run of the events, as `StateReader.board_runs` would read it; the latest event first."""
    pipeline, _ = folded(events)
    result = [_board_run(pipeline.run(run_id)) for run_id in pipeline.runs()]
    return sorted(result, key=lambda one: str(one.run.last_event_at), reverse=True)


def _board_run(folded_run: Any) -> BoardRun:
    changes: Sequence[Any] = folded_run.summaries()
    [run] = [RunSummary.model_validate_json(c.value) for c in changes if c.kind == "run"]
    agents = [AgentModelSummary.model_validate_json(c.value) for c in changes if c.kind == "agent_model"]
    tasks = TasksOfRun.of(folded_run.comparisons.tasks().items())
    parts = tasks if is_over(run) else ({}, {})
    return BoardRun(run, sorted(agents, key=lambda a: a.agent_model), *parts)
