"""Real Terminal-Bench results against what terminal-bench and fc-eval compute from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from tests.conformance import folds
from tests.conformance.folds import Summary
from tests.conformance.group_rules import graded
from tests.support.cli import streamer
from tests.support.data import shared_data
from tests.support.rows import read_rows, terminal_bench_row_to_event

Rows = list[dict[str, Any]]

ORCHESTRATOR = "20250902_orchestrator_qwen-3-coder-480B"
DROID = "20250924_droid_gpt-5"
DATASET = "terminal-bench-core@0.1.1"


@pytest.fixture(scope="module")
def data() -> Path:
    return shared_data() / "terminal_bench"


@pytest.fixture(scope="module")
def expected(data: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((data / "expected.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def file_rows(data: Path) -> Rows:
    return read_rows(data / "trials.jsonl.gz")


@pytest.fixture(scope="module")
def all_rows(data: Path, file_rows: Rows) -> Rows:
    return file_rows + read_rows(data / "trials_runfile_only.jsonl.gz")


def check(run: Summary, required: dict[str, Any], trials: Rows) -> None:
    """Every number that both sides have."""
    assert run["resolved"] == required["n_resolved"]
    assert run["tasks"] == required["n_tasks"]
    assert run["accuracy"] == folds.close(required["accuracy"])
    folds.check_pass_at_k(run, trials)
    check_their_pass_at_k(run["pass_at_k"], required["pass_at_k"])
    for name, ours in (("input", "total_input_tokens"), ("output", "total_output_tokens")):
        assert (run["tokens"][name] or 0) == required[ours]  # without values ours is null (R1), theirs 0
    if "n_trials" in required:
        assert run["trials"] == required["n_trials"]
        assert run["unresolved"] == required["n_unresolved"]
        assert run["no_verdict"] == required["n_null_is_resolved"]
        assert run["failure_modes"] == required["failure_modes"]
        assert run["trials"] - run["coverage"]["input_tokens"] == required["n_null_tokens"]


def check_their_pass_at_k(ours: dict[str, Any] | None, theirs: dict[str, float]) -> None:
    """R11 (differs from F10): partial k too, and null over several agent:models."""
    if ours is not None:
        folds.check_ruled({k: stored["value"] for k, stored in ours.items()}, theirs)
        assert {k for k, stored in ours.items() if not stored["partial"] and k != "1"} == theirs.keys() - {
            "1"
        }


def converted(*arguments: object) -> tuple[Summary, Rows]:
    """The only run's summary that `streamer convert ... | streamer fold --json` prints, and its trials."""
    events = streamer("convert", *arguments)
    assert events.returncode == 0, events.stderr.decode()
    result = streamer("fold", "--json", stdin=events.stdout)
    assert result.returncode == 0, result.stderr.decode()
    lines = [orjson.loads(line) for line in result.stdout.splitlines()]
    (run,) = (line for line in lines if line["type"] == "run_summary")
    return dict(run), trials_of(events.stdout)


def trials_of(lines: bytes) -> Rows:
    """The trials among printed events, with what an event leaves out."""
    events = [orjson.loads(line) for line in lines.splitlines()]
    unknown = {"agent": "unknown", "model": "unknown"}
    return [unknown | event for event in events if event["type"] == "trial_result"]


@pytest.mark.parametrize("pooled", [[], ["--run-id", "pool"]], ids=["as it lies", "pooled"])
@pytest.mark.parametrize(
    ("run", "options", "part"),
    [
        (ORCHESTRATOR, [], "from_run_file"),
        (ORCHESTRATOR, ["--trial-files-only"], "from_trial_files"),
        (f"{DROID}/tb_rc2_g5_4", [], "from_run_file"),
        (f"{DROID}/tb_rc2_g5_4", ["--trial-files-only"], "from_trial_files"),
    ],
)
def test_convert_and_fold_of_a_real_run_directory_give_the_harness_numbers(
    data: Path, expected: dict[str, Any], run: str, options: list[str], part: str, pooled: list[str]
) -> None:
    summary, trials = converted(data / "runs" / run, *options, *pooled)
    check(summary, expected["runs"][f"{DATASET}/{run}"][part], trials)


def test_every_run_of_the_data_gives_the_harness_numbers(
    expected: dict[str, Any], file_rows: Rows, all_rows: Rows
) -> None:
    checked = 0
    for path, required in expected["runs"].items():
        for part, rows in (("from_trial_files", file_rows), ("from_run_file", all_rows)):
            if required.get(part):
                events = [terminal_bench_row_to_event(row, path) for row in rows if row["run_path"] == path]
                check(folds.the_run(folds.folded(events)), required[part], events)
                checked += 1
    assert checked >= 40


@pytest.mark.parametrize("part", ["submissions_from_trial_files", "submissions_from_all_rows"])
def test_every_pooled_submission_gives_the_harness_numbers(
    expected: dict[str, Any], file_rows: Rows, all_rows: Rows, part: str
) -> None:
    rows = all_rows if part.endswith("all_rows") else file_rows
    for submission, required in expected[part].items():
        events = [
            terminal_bench_row_to_event(row, submission, shard=row["run"])
            for row in rows
            if row["submission"] == submission
        ]
        check(folds.the_run(folds.folded(events)), required, events)


def test_r13_every_agents_grade_is_that_of_its_mean_pass_rate(file_rows: Rows) -> None:
    """No trial of Terminal-Bench has a judge."""
    grades = set()
    for submission in sorted({row["submission"] for row in file_rows}):
        events = [
            terminal_bench_row_to_event(row, submission, shard=row["run"])
            for row in file_rows
            if row["submission"] == submission
        ]
        for ours in folds.summaries(folds.folded(events), "agent_model"):
            mine = [e for e in events if f"{e['agent']}:{e['model']}" == ours["agent_model"]]
            folds.check_ruled(ours, graded(mine))
            assert ours["grade_score"] == folds.close(ours["accuracy"])
            assert ours["statistics"]["composite_score"]["count"] == 0
            grades.add((ours["grade"], ours["grade_basis"]))
    assert {basis for _, basis in grades} == {"mean_pass_rate"}


def running(events: list[dict[str, Any]]) -> Iterator[Summary]:
    pipeline = Pipeline()
    for offset, event in enumerate(events):
        pipeline.fold([Record(orjson.dumps(event), offset)])
        changes = pipeline.run(event["run_id"]).take_changes().summaries
        yield next(change.summary for change in changes if change.kind == "run" and change.summary)


def test_every_prefix_of_every_run_gives_the_harness_numbers(
    expected: dict[str, Any], file_rows: Rows
) -> None:
    checked = 0
    for path, required in expected["runs"].items():
        prefixes = required.get("prefixes_in_file_order") or {}
        events = [terminal_bench_row_to_event(row, path) for row in file_rows if row["run_path"] == path]
        for length, run in enumerate(running(events), 1):
            if str(length) in prefixes:
                check(run, prefixes[str(length)], events[:length])
                checked += 1
    assert checked >= 150
