"""Run directories that the tests of `tail` follow."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

HARBOR_JOBS = Path(__file__).parents[1] / "sources" / "harbor" / "jobs.tar.gz"
START = datetime(2026, 1, 2, tzinfo=UTC)
LOCK = {
    "agent": {"name": "terminus", "model_name": "gpt-5"},
    "dataset": {"task_ids": ["oom", "b"], "name": "core"},
    "run_config": {"n_attempts": 1},
}
