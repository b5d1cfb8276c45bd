"""Rows of the shared real data to event dicts, independently of the connectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a `.jsonl` or `.jsonl.gz` file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode("utf-8").split("\n") if line]


def terminal_bench_row_to_event(
    row: dict[str, Any], run_id: str | None = None, shard: str = ""
) -> dict[str, Any]:
    """A row of terminal_bench/trials*.jsonl.gz as a `trial_result`; the run is its directory's name."""
    return _known(
        {
            "type": "trial_result",
            "harness": "terminal-bench",
            "run_id": run_id or row["run"],
            "shard": shard or None,
            "task_id": row["task_id"],
            "attempt": row["attempt"],
            "agent": row["agent"] or "unknown",
            "model": row["model"] or "unknown",
            "trial_id": row.get("id") or row.get("uuid"),
            "trial_name": row["trial_name"],
            "resolved": row["is_resolved"],
            "failure_mode": row["failure_mode"],
            "input_tokens": row["total_input_tokens"],
            "output_tokens": row["total_output_tokens"],
            "started_at": row.get("trial_started_at"),
            "finished_at": row.get("trial_ended_at"),
        }
    )


def scylla_row_to_event(
    row: dict[str, Any], run_id: str, shard: str = "", revision: int = 0
) -> dict[str, Any]:
    """A row of scylla/*.jsonl as a `trial_result`; the experiment is the task, `score` the judge's (S16)."""
    return _known(
        {
            "type": "trial_result",
            "harness": "scylla",
            "run_id": run_id,
            "shard": shard or None,
            "task_id": row["experiment"],
            "attempt": row["run_number"],
            "agent": "claude-code",
            "model": row["agent_model"],
            "tier": row["tier"],
            "subtest": row["subtest"],
            "revision": revision,
            "trial_name": f"{row['tier']}/{row['subtest']}/run_{row['run_number']:02d}",
            "resolved": row["passed"],
            "failure_mode": "unset" if row["exit_code"] == 0 else f"exit_code_{row['exit_code']}",
            "score": row["score"],
            "input_tokens": row["input_tokens"],
            "output_tokens": row["output_tokens"],
            "cache_read_tokens": row["cache_read_tokens"],
            "cache_write_tokens": row["cache_creation_tokens"],
            "cost_usd": row["cost_usd"],
            "duration_seconds": row["duration_seconds"],
        }
    )


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
