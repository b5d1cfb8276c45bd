"""The real data of tests/data as streams of events, one stream per data set."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from tests.support.data import shared_data
from tests.support.formulacode_cases import Case, cases
from tests.support.rows import read_rows, scylla_row_to_event, terminal_bench_row_to_event

Event = dict[str, Any]


def streams() -> Iterator[tuple[str, list[Event]]]:
    """Name and events of each data set."""
    bench = shared_data() / "terminal_bench"
    for name in ("trials", "trials_runfile_only"):
        rows = read_rows(bench / f"{name}.jsonl.gz")
        yield f"terminal_bench/{name}", [terminal_bench_row_to_event(row, row["run_path"]) for row in rows]
    yield "terminal_bench/runs", _converted(sorted((bench / "runs").iterdir()))
    scylla = shared_data() / "scylla"
    for name in ("haiku_n3", "haiku_draft"):
        rows = read_rows(scylla / f"{name}.jsonl")
        yield f"scylla/{name}", [scylla_row_to_event(row, name, shard=str(row["row"])) for row in rows]
    early, late = read_rows(scylla / "haiku_n3_superseded.jsonl"), read_rows(scylla / "haiku_n3.jsonl")
    corrected = [scylla_row_to_event(row, "corrected") for row in early]
    yield "scylla/corrected", corrected + [scylla_row_to_event(row, "corrected", revision=1) for row in late]
    yield "scylla/dryrun", _converted([scylla / "dryrun"])
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            archive.extractall(folder)
        runs = sorted(path for path in (Path(folder) / "fc_runs").iterdir() if path.is_dir())
        yield "formulacode/runs", _converted(runs)
    yield "formulacode/speedups", [event for case in cases("speedups") for event in _of_speedups(case)]
    yield "formulacode/merge", [event for case in cases("merge") for event in _of_merge(case)]


def _converted(paths: list[Path]) -> list[Event]:
    return list(convert(paths, ConvertOptions(), ConvertReport()))


def _of_speedups(case: Case) -> list[Event]:
    """The benchmarks of an agent that succeeded, and of one that failed."""
    event = {"type": "trial_result", "run_id": case.id, "agent": "terminus", "model": "gpt-5"}
    benchmarks = {name: _strict(entry) for name, entry in case.input["per_benchmark_speedups"].items()}
    return [
        event | {"task_id": "passed", "resolved": True, "benchmarks": benchmarks},
        event | {"task_id": "failed", "resolved": False, "benchmarks": benchmarks},
    ]


def _of_merge(case: Case) -> list[Event]:
    """The sub-trials of one trial: verdicts, counts and the first benchmarks of each log."""
    events = []
    for index, written in enumerate(case.input["agent_results"], 1):
        metrics = written["parser_extra_metrics"] or {}
        logged = metrics.get("per_benchmark_speedups_by_agent")
        first = next(iter(logged.values()), None) if isinstance(logged, dict) else None
        failed = metrics.get("test_failed")
        events.append(
            {
                "type": "trial_result",
                "run_id": case.id,
                "task_id": "task",
                "agent": ("nop", "oracle")[index - 1] if index < 3 else f"agent-{index}",
                "model": ("nop", "oracle")[index - 1] if index < 3 else "gpt-5",
                "agent_index": index,
                "resolved": written["is_resolved"],
                "failure_mode": written["failure_mode"],
                "tests": {"status": "failed" if failed else "ok", "failed": failed}
                if isinstance(failed, int)
                else None,
                "benchmarks": {name: _strict(entry) for name, entry in first.items()}
                if isinstance(first, dict)
                else None,
            }
        )
    return events


def _strict(value: Any) -> Any:
    """JSON without NaN and infinities, which an event cannot carry."""
    if isinstance(value, dict):
        return {name: _strict(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_strict(part) for part in value]
    return None if (isinstance(value, float) and abs(value) in (float("inf"),)) or value != value else value
