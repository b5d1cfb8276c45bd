"""Runs of which only the run-level file is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sources.builders import Event, converted, once, trials_of
from tests.sources.fc_eval_runs import run_level_only

ONE_AGENT = ("fc-multi-of-one", "fc-single-nop", "fc-single-terminus")
SEVERAL_AGENTS = ("fc-no-oracle-same-framework", "fc-nop-oracle-gpt5", "fc-rough", "fc-two-attempts")
CONFIGURATION = ("fc.lock", "run_metadata.json")
ALWAYS = ("task_id", "attempt", "agent", "model", "resolved", "cost_usd", "trajectory_length")
"""Fields of an event that the run-level file has of every agent."""


def by_agent(events: list[Event]) -> dict[tuple[Any, ...], Event]:
    result = {(e["task_id"], e["attempt"], e.get("agent_index")): e for e in trials_of(events)}
    assert len(result) == len(trials_of(events))
    return result


def both(runs: Path, name: str, folder: Path, *others: str) -> tuple[list[Event], list[Event]]:
    """Events of a run with its trial files, and with the run-level one alone."""
    return once(runs / name)[0], converted(run_level_only(runs / name, folder, *others))[0]
