"""Jobs that harbor 0.25.0 itself wrote, recorded by record.py; and builders of small ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamer.folding.fold import fold_records
from streamer.schemas.wire import records_of_lines
from tests.sources.builders import Event, unpacked, write_json

JOBS = Path(__file__).parent / "jobs.tar.gz"


def unpack_jobs(home: Path) -> Path:
    """The jobs `kinds`, `coins`, `cancelled` and, from before it was cancelled, `running`."""
    return unpacked(JOBS, home)


def summaries(events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    """Agent:model to its summary."""
    folding = fold_records(records_of_lines(json.dumps(event).encode() for event in events))
    result = [change.summary for change in folding.summaries() if change.summary]
    return {s["agent_model"]: s for s in result if s["type"] == "agent_model_summary"}


def a_trial_result(task: str = "t", name: str = "t__abc1234", **fields: Any) -> Event:
    """A trial's result.json with what harbor always writes and the connector reads."""
    agent = {"name": "codex", "version": "1", "model_info": {"name": "gpt-5", "provider": "openai"}}
    used = {"n_input_tokens": 100, "n_cache_tokens": 30, "n_output_tokens": 7, "cost_usd": 0.5}
    result: Event = {"id": f"id of {name}", "task_name": task, "trial_name": name, "agent_info": agent}
    result |= {"config": {"agent": {"name": "codex", "model_name": "openai/gpt-5"}}, "agent_result": used}
    result |= {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:05:00Z"}
    result |= {"verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": None, "step_results": None}
    return result | fields


def a_job(path: Path, *results: Event) -> Path:
    write_json(path / "config.json", {"job_name": path.name, "agents": [{"name": "codex"}]})
    for number, result in enumerate(results):
        write_json(path / f"t{number}" / "result.json", result)
    return path
