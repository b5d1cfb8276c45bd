"""Logs of inspect_ai as runs: what its own results say, the events say too."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from streamer.sources.inspect import LEFT_OUT, NO_SAMPLES, read_header
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.inspect import a_log, a_spec, a_summary, the_log


def by_slot(events: list[Event]) -> dict[tuple[str, int], Event]:
    return {(event["task_id"], event["attempt"]): event for event in trials_of(events)}


def results_of(log: Path) -> dict[str, dict[str, Any]]:
    """Name of each score to its metrics, as inspect_ai worked them out."""
    return {score["name"]: score["metrics"] for score in read_header(log)["results"]["scores"]}


def test_a_finished_log_has_a_trial_for_each_sample_and_epoch(inspect_logs: Path) -> None:
    events, report = converted(inspect_logs / "finished")
    results = read_header(the_log(inspect_logs / "finished"))["results"]
    assert len(by_slot(events)) == report.trials == results["total_samples"] == 18
    failed = [event for event in trials_of(events) if "RuntimeError" in event["failure_mode"]]
    assert len(failed) == results["total_samples"] - results["completed_samples"] == 1
    assert failed[0]["message"] == "RuntimeError('no such tool')"
    assert "resolved" not in failed[0]
    assert report.unreadable == report.left_out == []


def test_the_plan_says_the_queue_that_inspect_shuffled(inspect_logs: Path) -> None:
    events, _ = converted(inspect_logs / "finished")
    plan = plan_of(events)
    spec = read_header(the_log(inspect_logs / "finished"))["eval"]
    shuffled = [str(number) for number in spec["dataset"]["sample_ids"]]
    assert plan["order"] == shuffled * 3
    assert plan["order_kind"] == "shuffled"
    assert (plan["tasks"], plan["attempts"]) == (shuffled, 3)
    assert plan["run_id"] == f"addition_{spec['task_id']}"
    assert plan["agent_models"] == ["careful+generate:mockllm/model"]
    assert plan["metrics"] == {"graded": {}, "quality/style": {}, "quality/length": {}}


def test_means_of_scores_are_those_of_the_log(inspect_logs: Path) -> None:
    """Every sample has every epoch there, so inspect_ai's mean of means is the mean of all."""
    results = results_of(the_log(inspect_logs / "grown"))
    trials = trials_of(converted(inspect_logs / "grown")[0])
    for metric, score, name in (
        ("graded", "graded", "accuracy"),
        ("quality/style", "style", "mean"),
        ("quality/length", "length", "mean"),
    ):
        values = [trial["metrics"][metric] for trial in trials if metric in trial["metrics"]]
        assert fmean(values) == pytest.approx(results[score][name]["value"], rel=1e-12), metric
    assert Counter(trial.get("resolved") for trial in trials)[True] == sum(
        trial["metrics"]["graded"] == 1 for trial in trials
    )


def test_a_score_of_nan_is_missing_and_no_fault(inspect_logs: Path) -> None:
    events, report = converted(inspect_logs / "grown")
    assert {
        slot[1] for slot, trial in by_slot(events).items() if "quality/style" not in trial["metrics"]
    } == {3}
    assert report.remarks == {}


def test_tokens_are_those_of_the_log(inspect_logs: Path) -> None:
    usage = read_header(the_log(inspect_logs / "finished"))["stats"]["model_usage"]["mockllm/model"]
    trials = trials_of(converted(inspect_logs / "finished")[0])
    for field, name in (
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("cache_read_tokens", "input_tokens_cache_read"),
    ):
        assert sum(trial.get(field, 0) for trial in trials) == usage[name], field
    assert not any("cost_usd" in trial for trial in trials)


def test_a_limit_is_a_failure_mode_of_its_own(inspect_logs: Path) -> None:
    trials = trials_of(converted(inspect_logs / "finished")[0])
    assert {trial["task_id"] for trial in trials if trial["failure_mode"] == "token_limit"} == {"5"}


def test_json_and_eval_give_the_same_events(inspect_logs: Path) -> None:
    of_json, of_eval = converted(inspect_logs / "json")[0], converted(inspect_logs / "finished")[0]
    assert by_slot(of_json) == by_slot(of_eval)
    others = [[event for event in events if event["type"] != "trial_result"] for events in (of_json, of_eval)]
    assert others[0] == others[1]


def test_a_log_that_grows_has_the_samples_so_far_and_no_end(inspect_logs: Path) -> None:
    now, _ = converted(inspect_logs / "growing")
    later, _ = converted(inspect_logs / "grown")
    assert 4 <= len(trials_of(now)) < 18
    assert {event["type"] for event in now} == {"run_started", "trial_result"}
    assert plan_of(now) == plan_of(later)
    assert by_slot(now).items() <= by_slot(later).items()


def test_a_retry_is_the_same_run_and_what_ran_again_wins(inspect_logs: Path) -> None:
    events, report = converted(inspect_logs / "retried")
    first, second = sorted((inspect_logs / "retried").iterdir())
    assert len({event["run_id"] for event in events}) == 1
    assert report.notes == []
    latest: dict[tuple[str, int], Event] = {}
    for event in sorted(trials_of(events), key=lambda event: event["revision"]):
        latest[event["task_id"], event["attempt"]] = event
    assert latest == by_slot(converted(second)[0])
    assert by_slot(converted(first)[0])["4", 2]["failure_mode"] == "RuntimeError"
    assert [event for event in events if event["type"] != "trial_result"] == [
        event for event in converted(second)[0] if event["type"] != "trial_result"
    ]


def test_the_plan_of_a_retry_that_ran_nothing_again_is_sent(tmp_path: Path) -> None:
    a_log(tmp_path / "a.eval", a_summary(), spec=a_spec(), status="error")
    later = a_spec(created="2026-01-02T04:00:00+00:00")
    a_log(tmp_path / "b.eval", a_summary(), spec=later, status="success")
    events, report = converted(tmp_path)
    assert [event.get("status") for event in events if event["type"] == "run_finished"] == ["success"]
    assert plan_of(events)["started_at"] == later["created"]
    assert report.duplicates == 1


def test_a_log_that_keeps_no_samples_is_said(tmp_path: Path) -> None:
    """As `--no-log-samples` leaves it; a log that keeps them may have none yet."""
    log = a_log(tmp_path / "x.eval", spec=a_spec(config={"log_samples": False}))
    events, report = converted(log)
    assert [event["type"] for event in events] == ["run_started", "run_finished"]
    assert report.unreadable == [(log, NO_SAMPLES)]
    assert not converted(a_log(tmp_path / "y.eval", spec=a_spec(config={"log_samples": True})))[1].unreadable


def test_two_evals_of_one_task_are_two_runs(inspect_logs: Path) -> None:
    _, report = converted(inspect_logs / "finished", inspect_logs / "grown")
    assert len(report.runs) == 2


def test_a_log_anywhere_in_a_folder_is_found_and_others_files_are_left_alone(
    inspect_logs: Path, tmp_path: Path
) -> None:
    shutil.copytree(inspect_logs / "json", tmp_path / "deep" / "logs")
    write_json(tmp_path / "2026-01-02T03-04-05_notes.json", {"version": 1})
    (tmp_path / "other.eval").write_bytes(b"not a zip")
    _, report = converted(tmp_path)
    assert report.trials == 18
    assert report.unreadable == []


def test_scores_that_are_no_numbers_are_said_once_for_the_run(tmp_path: Path) -> None:
    scores = {"match": {"value": "C"}, "words": {"value": "lovely"}, "parts": {"value": [1, 0]}}
    a_log(tmp_path / "x.eval", a_summary(scores=scores), a_summary(id=2, scores=scores))
    events, report = converted(tmp_path)
    assert [trial["metrics"] for trial in trials_of(events)] == [{"match": 1.0}] * 2
    [remarks] = report.remarks.values()
    assert (remarks.what, remarks.details) == (
        LEFT_OUT,
        {
            "the score 'words' is 'lovely', which is no number": 2,
            "the score 'parts' is a list": 2,
        },
    )


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        (None, "sample 1: an object belongs here, not a JSON NoneType"),
        ({"epoch": 1}, "sample 1: `id` is None, a text or a number is needed"),
        (a_summary(id=[1]), "sample 1: `id` is [1], a text or a number is needed"),
    ],
)
def test_what_is_no_sample_is_reported_and_the_others_are_read(
    tmp_path: Path, summary: object, wrong: str
) -> None:
    a_log(tmp_path / "x.eval", summary, a_summary(id=2))
    events, report = converted(tmp_path)
    assert [trial["task_id"] for trial in trials_of(events)] == ["2"]
    assert report.unreadable == [(tmp_path / "x.eval", wrong)]


def test_agent_and_model_can_be_named_where_the_log_names_none(tmp_path: Path) -> None:
    spec = a_spec(model=None)
    a_log(tmp_path / "x.eval", a_summary(), spec=spec, plan={})
    events, _ = converted(tmp_path, agent="me", model="mine")
    assert [(trial["agent"], trial["model"]) for trial in trials_of(events)] == [("me", "mine")]
