"""Files of the kinds that users have: each case of tests/data/field has the numbers that are right."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.schemas.base import encode_id
from streamer.sources.base import ConvertOptions
from streamer.sources.convert import SOURCES, discover
from tests.house.repository import ROOT
from tests.sources.builders import Event, a_result, converted, plan_of, trials_of, write_json
from tests.sources.every_eval_ever import a_file, a_row
from tests.sources.harbor import a_trial_result
from tests.support.events import summarised

FIELD = ROOT / "tests" / "data" / "field"

DEMO = "demo_AbCdEfGhIjKlMnOpQrStUv"

CASES: dict[str, tuple[str, Event]] = {
    # R35: the lists of a report of SWT-bench name all instances without `completed_ids`.
    "swe-report-without-completed-ids": ("run7", {"trials": 3, "resolved": 2, "planned": 3}),
    "swe-report-bom": ("run7", {"trials": 2, "resolved": 1, "planned": 2}),
    # R34: a run has the names of its directories where the report says none.
    "swe-openhands-output-report": (
        *("swe-openhands-output-report/eval_outputs", {"trials": 5, "resolved": 2, "planned": 5}),
    ),
    # sb-cli: what failed on the servers has no verdict, what is pending is planned and missing.
    "swe-sb-cli-report": ("acme_run1", {"trials": 4, "resolved": 2, "no_verdict": 1, "planned": 5}),
    "swe-instance-in-two-lists": ("run7", {"trials": 3, "resolved": 2, "unreadable": 1}),
    # R2: zero tokens were not counted; the other trial is priced.
    "harbor-zero-tokens-cost-zero": (
        "harbor-zero-tokens-cost-zero",
        {"trials": 2, "planned": None, "costs": 1, "total_cost": 0.000156},
    ),
    # R2: the cache is part of the input where the total is input + output.
    "inspect-cached-input-counted-twice": (DEMO, {"trials": 1, "planned": 1, "total_cost": 0.0015}),
    "inspect-cached-input-new-style": (DEMO, {"trials": 1, "planned": 1, "total_cost": 0.0015}),
    # R2: reasoning tokens belong to the output where the total has them apart.
    "inspect-gemini-thinking-unpriced": (DEMO, {"trials": 1, "planned": 1, "total_cost": 0.010625}),
    # Before 0.3.95 summaries have no tokens: the samples do.
    "inspect-eval-old-summaries-lose-tokens": (DEMO, {"trials": 2, "planned": 2, "total_cost": 0.0003285}),
    "inspect-eval-new-summaries": (DEMO, {"trials": 2, "planned": 2, "total_cost": 0.0003285}),
    "inspect-nan-unscored": (DEMO, {"trials": 3, "planned": 3, "resolved": 1, "no_verdict": 1}),
    # R31: 1 and 0 are verdicts where inspect_ai takes their accuracy.
    "inspect-numeric-scores-accuracy-zero": (
        *(DEMO, {"trials": 3, "planned": 3, "resolved": 2, "no_verdict": 0, "accuracy": 2 / 3}),
    ),
    # An empty id names no task; the others do, cleaned.
    "inspect-one-bad-id-drops-plan": (DEMO, {"trials": 8, "planned": 8, "resolved": 8, "unreadable": 1}),
    # R34: the shards of one log are one run.
    "inspect-two-shards": ("addition_RLGk3vGh7Az", {"trials": 6, "resolved": 4, "planned": 6}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_of_the_field_has_the_right_numbers(case: str, tmp_path: Path) -> None:
    run_id, expected = CASES[case]
    shutil.copytree(FIELD / case, tmp_path / case)
    events, report = converted(tmp_path / case)
    run = summarised(events)[f"run {encode_id(run_id)}"]
    run |= {"planned": run["progress"]["planned"], "costs": run["coverage"]["cost_usd"]}
    run["unreadable"] = len(report.unreadable)
    assert {name: run[name] for name in expected} == pytest.approx(expected)


def test_every_case_of_the_field_is_tested() -> None:
    assert sorted(CASES) == sorted(path.name for path in FIELD.iterdir())


# -----------------------------------------------------------------------------
# One rule for all connectors: tokens and cost (R2), ids, and marks before a text.


Writer = Callable[..., Path]


def _named(usage: Event, **names: str) -> Event:
    """What was used, under the names that a harness has for it."""
    return {field: usage.get(name) for field, name in names.items()}


OF_INSPECT = {"input_tokens": "input", "output_tokens": "output", "total_tokens": "total"}
OF_INSPECT |= {"input_tokens_cache_read": "cache", "reasoning_tokens": "reasoning"}


def _harbor(home: Path, task: str, agent: str = "codex", **usage: Any) -> Path:
    tokens = {"n_input_tokens": "input", "n_output_tokens": "output", "n_cache_tokens": "cache"}
    result = _named(usage, **tokens, cost_usd="cost")
    config = {"agent": {"name": agent, "model_name": "m"}}
    write_json(home / "config.json", {"job_name": home.name, "agents": [config["agent"]]})
    info = {"name": agent, "version": "1"}
    trial = a_trial_result(task, agent_result=result, config=config, agent_info=info)
    return write_json(home / "t__abc1234" / "result.json", trial).parents[1]


def _inspect(home: Path, task: str, agent: str = "solver", **usage: Any) -> Path:
    spec = {"task": "demo", "task_id": "T", "model": "m", "solver": agent, "dataset": {"sample_ids": [task]}}
    sample: Event = {"id": task, "epoch": 1, "scores": {"match": {"value": "C"}}}
    sample["model_usage"] = {"m": _named(usage, **OF_INSPECT, total_cost="cost")}
    log = {"version": 2, "status": "success", "eval": spec, "samples": [sample]}
    return write_json(home / "2026-01-01T00-00-00_demo_T.json", log).parent


def _every_eval_ever(home: Path, task: str, **usage: Any) -> Path:
    row = a_row(task, token_usage=_named(usage, **OF_INSPECT))
    return a_file(home / "x_samples.jsonl", row).parent


def _terminal_bench(
    home: Path, task: str, agent: str = "terminus", *, lock: str = "tb.lock", **usage: Any
) -> Path:
    tokens = {"total_input_tokens": "input", "total_output_tokens": "output"}
    result = a_result(task, run="") | _named(usage, **tokens, total_cost="cost")
    write_json(home / lock, {"agent": {"name": agent, "model_name": "m"}, "dataset": {"task_ids": [task]}})
    return write_json(home / "task" / "task.1-of-1" / "results.json", result).parents[2]


def _scylla(home: Path, task: str, **usage: Any) -> Path:
    tokens = _named(usage, input_tokens="input", output_tokens="output", cache_read_tokens="cache")
    write_json(home / "config" / "experiment.json", {"experiment_id": task, "models": ["m"]})
    result = {"exit_code": 0, "judge_passed": True, "token_stats": tokens, "cost_usd": usage.get("cost")}
    return write_json(home / "T0" / "00" / "run_01" / "run_result.json", result).parents[3]


def _swe_bench(home: Path, task: str) -> Path:
    report = {"total_instances": 1, "submitted_ids": [task], "resolved_ids": [task], "resolved_instances": 1}
    return write_json(home / "acme.run.json", report).parent


WRITERS: dict[str, Writer] = {
    "harbor": _harbor,
    "inspect": _inspect,
    "every-eval-ever": _every_eval_ever,
    "terminal-bench": _terminal_bench,
    "fc-eval": partial(_terminal_bench, lock="fc.lock"),
    "scylla": _scylla,
    "swe-bench": _swe_bench,
}
WITH_COST = sorted(WRITERS.keys() - {"swe-bench", "every-eval-ever"})
WITH_BASELINES = sorted(set(WITH_COST) - {"scylla"})
UNCOUNTED = {"input": 0, "output": 0}
COSTS: list[tuple[list[str], str, Event, float | None]] = [
    *((WITH_COST, "codex", one | {"cost": 0.0}, None) for one in (UNCOUNTED, {"input": 9, "output": 2}, {})),
    (WITH_COST, "codex", UNCOUNTED | {"cost": 0.5}, 0.5),
    (WITH_BASELINES, "oracle", UNCOUNTED | {"cost": 0.0}, 0.0),
    (WITH_BASELINES, "oracle", {"input": 10, "output": 10, "cost": 0.0}, None),
]


def one_trial(home: Path) -> Event:
    events, report = converted(home)
    assert not report.unreadable + report.left_out
    [trial] = trials_of(events)
    return trial


def test_every_connector_is_asked_here() -> None:
    assert sorted(WRITERS) == sorted(source.name for source in SOURCES)


@pytest.mark.parametrize(
    ("harness", "agent", "usage", "cost"), [(one, *case) for of, *case in COSTS for one in of]
)
def test_r2_a_cost_of_0_is_unknown_but_for_a_baseline_without_tokens(
    tmp_path: Path, harness: str, agent: str, usage: Event, cost: float | None
) -> None:
    trial = one_trial(WRITERS[harness](tmp_path / "run", "t", **usage, agent=agent))
    assert (trial.get("cost_usd"), trial.get("input_tokens")) == (cost, usage.get("input"))


@pytest.mark.parametrize("harness", ["inspect", "every-eval-ever"])
@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 10_000, "output": 1000, "cache": 8000, "total": 11_000}, (2000, 1000, 8000)),
        ({"input": 2000, "output": 1000, "cache": 8000, "total": 11_000}, (2000, 1000, 8000)),
        ({"input": 100, "output": 50, "reasoning": 1000, "total": 1150}, (100, 1050, None)),
        ({"input": 100, "output": 1050, "reasoning": 1000, "total": 1150}, (100, 1050, None)),
        ({"input": 900, "output": 50, "cache": 800, "reasoning": 7, "total": 957}, (100, 57, 800)),
        ({"input": 100, "output": 50, "cache": 800, "reasoning": 7, "total": 957}, (100, 57, 800)),
        ({"input": 100, "output": 50, "cache": 800, "total": 150}, (100, 50, 800)),  # more than the input
        ({"input": 900, "output": 50, "cache": 800}, (900, 50, 800)),  # no total
        ({"input": 1000, "output": None, "cache": 800, "total": 1000}, (200, None, 800)),
        ({"input": 200, "output": None, "cache": 800, "total": 1000}, (200, None, 800)),
    ],
)
def test_r2_the_total_says_what_input_and_output_mean(
    tmp_path: Path, harness: str, usage: Event, tokens: tuple[int | None, ...]
) -> None:
    trial = one_trial(WRITERS[harness](tmp_path / "run", "t", **usage))
    names = ("input_tokens", "output_tokens", "cache_read_tokens")
    assert tuple(trial.get(name) for name in names) == tokens


@pytest.mark.parametrize("output", [7, None])
def test_r2_the_input_of_harbor_has_the_cache_in_it(tmp_path: Path, output: int | None) -> None:
    trial = one_trial(_harbor(tmp_path / "job", "t", input=100, cache=30, output=output))
    assert (trial["input_tokens"], trial["cache_read_tokens"]) == (70, 30)
    assert trial.get("output_tokens") == output


def test_no_connector_has_tokens_or_a_cost_by_a_rule_of_its_own() -> None:
    """Every connector gets these fields from `usage_of`; fc-eval's merged results have tokens of several."""
    fields, named = {"cost_usd", "cache_read_tokens", "cache_write_tokens"}, {}
    for file in (ROOT / "streamer" / "sources").glob("*.py"):
        tables = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Dict)]
        keys = {str(key.value) for one in tables for key in one.keys if isinstance(key, ast.Constant)}
        named[file.name] = keys & fields
    expected = {"base.py": fields, "fc_eval.py": {"cost_usd"}}
    assert {name: keys for name, keys in named.items() if keys} == expected


@pytest.mark.parametrize("harness", WRITERS)
def test_an_id_with_control_characters_is_cleaned_in_trial_and_plan(tmp_path: Path, harness: str) -> None:
    home = WRITERS[harness](tmp_path / "run", "a\nb\ud800")
    task = ("bench/" if harness == "every-eval-ever" else "") + "a\ufffdb\ufffd\ufffd\ufffd"
    assert one_trial(home)["task_id"] == task
    if tasks := plan_of(converted(home)[0]).get("tasks"):
        assert tasks == [task]


@pytest.mark.parametrize("harness", sorted(WRITERS.keys() - {"scylla"}))
def test_r35_two_ids_that_become_one_are_named(tmp_path: Path, harness: str) -> None:
    """One of them alone is only cleaned. A run of ProjectScylla has one task."""
    home = WRITERS[harness](tmp_path / "run", "a\nb")
    assert converted(home)[1].notes == []
    if harness in ("inspect", "every-eval-ever", "swe-bench"):  # one file has all tasks
        [file] = home.glob("*.json*")
        again = json.loads(file.read_text())
        for ids in (again.get("submitted_ids"), again.get("resolved_ids"), again.get("samples")):
            if ids:
                ids.append("a\rb" if isinstance(ids[0], str) else ids[0] | {"id": "a\rb"})
        rows = [file.read_text().strip(), json.dumps(again | {"sample_id": "a\rb"})]
        file.write_text("\n".join(rows) if harness == "every-eval-ever" else json.dumps(again))
    else:
        other = WRITERS[harness](tmp_path / "other", "a\rb")
        [folder] = filter(Path.is_dir, other.iterdir())
        shutil.copytree(folder, home / folder.name.replace("t", "u"))
    notes = converted(home)[1].notes
    assert any("'a\\nb' and 'a\\rb' become 'a\ufffdb'" in note for note in notes), notes


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("harness", WRITERS)
def test_a_mark_before_the_text_changes_nothing(tmp_path: Path, harness: str, encoding: str) -> None:
    home = WRITERS[harness](tmp_path / "run", "täsk")
    plain = converted(home)[0]
    for file in filter(Path.is_file, home.rglob("*")):
        times = file.stat()
        file.write_text(file.read_text("utf-8"), encoding)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert converted(home)[0] == plain
    assert len(trials_of(plain)) == 1


ENDED = "2026-01-01T00:00:00Z"
LISTED = {"T0": {"00": {"1": "passed", "2": "failed", "3": "passed", "4": "agent_complete"}}}
MORE: dict[str, tuple[str, Event]] = {
    "harbor": ("result.json", {"finished_at": ENDED, "n_total_trials": 3}),
    "inspect": ("2026-01-01T00-00-00_demo_T.json", {"results": {"total_samples": 3}}),
    "every-eval-ever": ("x.json", {"detailed_evaluation_results": {"total_rows": 3}}),
    "terminal-bench": ("results.json", {"n_resolved": 3, "n_unresolved": 0}),
    "fc-eval": ("results.json", {"n_resolved": 3, "n_unresolved": 0}),
    "scylla": ("checkpoint.json", {"status": "completed", "completed_runs": LISTED}),
    "swe-bench": ("acme.run.json", {"total_instances": 3}),
}
"""A file of each harness, and what it says where the harness counted three trials."""


@pytest.mark.parametrize("harness", WRITERS)
def test_r35_a_run_whose_files_announce_more_than_it_has_is_incomplete(tmp_path: Path, harness: str) -> None:
    home = WRITERS[harness](tmp_path / "run", "t")
    file, content = home / MORE[harness][0], MORE[harness][1]
    write_json(file, (json.loads(file.read_text()) if file.exists() else {}) | content)
    if "n_resolved" in content:
        write_json(home / "run_metadata.json", {"end_time": ENDED})
    events, report = converted(home)
    [note] = report.notes
    assert ": 3 " in note
    assert " announced, " in note
    assert len(trials_of(events)) == 1
    assert plan_of(events)["plan_complete"] is False
    assert [event["status"] for event in events if event["type"] == "run_finished"] == ["interrupted"]


# -----------------------------------------------------------------------------
# Searching: each directory is listed once, and what is not recognised is explained.


@pytest.mark.parametrize("harness", WRITERS)
def test_a_search_lists_each_directory_once_and_asks_for_no_file(
    tmp_path: Path, harness: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        WRITERS[harness](tmp_path / f"run{number}", "t")
    listed: Counter[str] = Counter()
    asked: list[object] = []
    scandir = os.scandir

    def counted(path: Any) -> Any:
        listed[str(path)] += 1
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    monkeypatch.setattr(os.path, "isfile", asked.append)
    runs, _, _ = discover([tmp_path], SOURCES, ConvertOptions())
    assert len(runs) == 3
    assert {count for path, count in listed.items() if path.startswith(str(tmp_path))} == {1}
    assert asked == []


def test_what_is_not_recognised_is_explained_for_each_format(tmp_path: Path) -> None:
    write_json(tmp_path / "d" / "a.b.json", {"x": 1})
    write_json(tmp_path / "d" / "notes.txt", "-")
    _, report = converted(tmp_path)
    assert [note.partition(" looks for ")[0] for note in report.notes] == [s.name for s in SOURCES]
    [(_, reason)] = report.unreadable
    assert "it has 2 files (1 .json, 1 .txt), such as 'a.b.json'" in reason
    _, report = converted(tmp_path / "d" / "a.b.json")
    assert "it holds an object with x" in report.unreadable[0].reason
