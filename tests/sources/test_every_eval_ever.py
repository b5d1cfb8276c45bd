"""Evaluations that the converter of Every Eval Ever itself wrote (see every_eval_ever/record.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.every_eval_ever import a_file, a_row, rows_in, unpack_evaluations
from tests.sources.harbor import summaries


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_evaluations(tmp_path_factory.mktemp("evaluations"))


def file_of(recorded: Path, name: str) -> Path:
    (file,) = [f for f in recorded.rglob("*_samples.jsonl") if rows_in(f)[0]["evaluation_name"] == name]
    return file


def whole_of(file: Path) -> Event:
    whole: Event = json.loads(file.with_name(file.name.replace("_samples.jsonl", ".json")).read_text())
    return whole


def one_event(tmp_path: Path, *rows: Event) -> Event:
    (event,) = trials_of(converted(a_file(tmp_path / "x.jsonl", *rows))[0])
    return event


def test_both_evaluations_of_a_directory_are_runs_named_by_the_evaluation(recorded: Path) -> None:
    _events, report = converted(recorded)
    ids = {rows_in(file)[0]["evaluation_id"] for file in recorded.rglob("*_samples.jsonl")}
    assert set(report.runs) == ids
    assert len(ids) == 2
    assert not report.unreadable + report.left_out


def test_the_counts_and_scores_are_those_of_the_file(recorded: Path) -> None:
    """One trial for each sample and epoch; each row's score is a metric of it."""
    file = file_of(recorded, "arithmetic")
    rows = rows_in(file)
    trials = trials_of(converted(file)[0])
    assert len(trials) == len({(row["sample_id"], row["metadata"]["epoch"]) for row in rows}) == 8
    by_row = sorted((row["sample_id"], row["metadata"]["epoch"], row["evaluation"]["score"]) for row in rows)
    by_metric = sorted(
        (trial["task_id"].removeprefix("arithmetic/"), str(trial["attempt"]), value)
        for trial in trials
        for name, value in trial["metrics"].items()
        if name.startswith("score")
    )
    assert by_metric == by_row


def test_scores_have_the_mean_that_the_evaluation_says(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    (summary,) = summaries(converted(file)[0]).values()
    results = whole_of(file)["evaluation_results"]
    accuracy = next(r for r in results if "accuracy" in r["evaluation_result_id"])
    metric = f"score/{accuracy['evaluation_result_id'].replace(':', '_')}"
    assert summary["metrics"][metric]["mean"] == accuracy["score_details"]["score"]
    assert summary["accuracy"] == accuracy["score_details"]["score"]


def test_a_plan_has_the_benchmark_the_metrics_and_the_model(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    plan = plan_of(converted(file)[0])
    whole = whole_of(file)
    assert plan["agent_models"] == [f"unknown:{whole['model_info']['id']}"]
    named = {r["evaluation_result_id"].replace(":", "_") for r in whole["evaluation_results"]}
    assert {name.removeprefix("score/") for name in plan["metrics"]} == named
    assert {metric["direction"] for metric in plan["metrics"].values()} == {"higher"}
    assert [metric["label"] for metric in plan["metrics"].values()] == ["match:accuracy"]
    assert converted(file)[0][-1]["type"] == "run_finished"


def test_tokens_turns_and_tool_calls_are_the_rows(recorded: Path) -> None:
    file = file_of(recorded, "with-tools")
    row = rows_in(file)[0]
    trial = trials_of(converted(file)[0])[0]
    usage = row["token_usage"]
    names = ("input_tokens", "output_tokens", "cache_read_tokens")
    assert [trial[name] for name in names] == [
        usage["input_tokens"],
        usage["output_tokens"],
        usage["input_tokens_cache_read"],
    ]
    assert usage["total_tokens"] == sum(trial[name] for name in names)
    assert trial["metrics"]["num_turns"] == row["evaluation"]["num_turns"]
    assert trial["metrics"]["tool_calls"] == row["evaluation"]["tool_calls_count"] == 1


def test_an_error_is_the_message_without_the_key_in_it(recorded: Path) -> None:
    trials = trials_of(converted(file_of(recorded, "arithmetic"))[0])
    (failed,) = [trial for trial in trials if trial["failure_mode"] == "error"]
    assert (failed["task_id"], failed["attempt"]) == ("arithmetic/four", 2)
    assert "no credit left for key [secret]" in failed["message"]
    assert "sk-proj" not in json.dumps(trials)


@pytest.mark.parametrize(
    ("usage", "fresh"),
    [
        ({"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 40}, 60),
        ({"input_tokens": 60, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 40}, 60),
        ({"input_tokens": 60, "output_tokens": 5, "total_tokens": 65}, 60),
    ],
)
def test_input_tokens_are_the_fresh_ones(tmp_path: Path, usage: dict[str, int], fresh: int) -> None:
    assert one_event(tmp_path, a_row(token_usage=usage))["input_tokens"] == fresh


def test_rows_that_do_not_agree_give_no_verdict(tmp_path: Path) -> None:
    rows = [a_row(evaluation_result_id="a"), a_row(score=0, correct=False, evaluation_result_id="b")]
    trial = one_event(tmp_path, *rows)
    assert "resolved" not in trial
    assert trial["metrics"] == {"score/a": 1.0, "score/b": 0}


def test_without_the_whole_evaluation_a_file_is_a_run_that_goes_on(tmp_path: Path) -> None:
    file = a_file(tmp_path / "x_samples.jsonl", a_row())
    events, _ = converted(file)
    assert [event["type"] for event in events] == ["run_started", "trial_result"]
    assert events[0]["run_id"] == "bench/acme_m/1700000000"
    whole = {"evaluation_results": [{"metric_config": {"lower_is_better": True, "metric_unit": "ms"}}]}
    write_json(tmp_path / "x.json", whole)
    events, _ = converted(file)
    assert plan_of(events)["metrics"] == {"score": {"direction": "lower", "unit": "ms"}}
    assert events[-1]["type"] == "run_finished"


@pytest.mark.parametrize("content", ["{", "[]", '{"evaluation_results": [1, {"metric_config": 3}]}'])
def test_a_broken_file_of_the_evaluation_loses_no_sample(tmp_path: Path, content: str) -> None:
    file = a_file(tmp_path / "x_samples.jsonl", a_row())
    write_json(tmp_path / "x.json", content)
    assert len(trials_of(converted(file)[0])) == 1


def test_metadata_are_labels_as_far_as_they_fit(tmp_path: Path) -> None:
    metadata: dict[str, Any] = {"subject": "algebra", "long": "x" * 300, "number": 3, "empty": ""}
    metadata |= {f"m{number:02}": "y" for number in range(20)}
    labels = one_event(tmp_path, a_row(metadata=metadata))["labels"]
    assert labels == {f"m{number:02}": "y" for number in range(16)}
    assert one_event(tmp_path, a_row(metadata={"subject": "algebra"}))["labels"] == {"subject": "algebra"}
