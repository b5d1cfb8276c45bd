"""Logs of inspect_ai as runs: what its own results say, the events say too."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from streamer.sources import files
from streamer.sources.files import MAX_FILE_BYTES, FileError
from streamer.sources.inspect import (
    LEFT_OUT,
    MAX_QUEUE,
    NO_SAMPLES,
    NO_USAGE,
    OTHER_MODEL,
    agent_of,
    finished_event,
    is_log,
    planned_metrics,
    read_header,
    read_samples,
    read_scores,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)
from tests.sources.builders import Event, converted, joined_plan, plan_of, trials_of, write_json
from tests.sources.harbor import summaries
from tests.sources.inspect import A_PLAN, OLDER, a_log, a_spec, a_summary, an_archive, the_log
from tests.sources.test_field import FIELD


def by_slot(events: list[Event]) -> dict[tuple[str, int], Event]:
    return {(event["task_id"], event["attempt"]): event for event in trials_of(events)}


def test_a_finished_log_has_a_trial_with_its_tokens_for_each_sample_and_epoch(inspect_logs: Path) -> None:
    events, report = converted(inspect_logs / "finished")
    results = read_header(the_log(inspect_logs / "finished"))["results"]
    assert len(by_slot(events)) == report.trials == results["total_samples"] == 18
    failed = [event for event in trials_of(events) if "RuntimeError" in event["failure_mode"]]
    assert len(failed) == results["total_samples"] - results["completed_samples"] == 1
    assert failed[0]["message"] == "RuntimeError('no such tool')"
    assert "resolved" not in failed[0]
    assert report.unreadable == report.left_out == []
    assert {trial["task_id"] for trial in trials_of(events) if trial["failure_mode"] == "token_limit"} == {
        "5"
    }
    usage = read_header(the_log(inspect_logs / "finished"))["stats"]["model_usage"]["mockllm/model"]
    for field, name in (
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("cache_read_tokens", "input_tokens_cache_read"),
    ):
        assert sum(trial.get(field, 0) for trial in trials_of(events)) == usage[name], field
    assert not any("cost_usd" in trial for trial in trials_of(events))


def test_the_plan_says_the_queue_that_inspect_shuffled(inspect_logs: Path) -> None:
    events, _ = converted(inspect_logs / "finished")
    plan = plan_of(events)
    spec = read_header(the_log(inspect_logs / "finished"))["eval"]
    shuffled = [str(number) for number in spec["dataset"]["sample_ids"]]
    assert plan["order"] == shuffled * 3
    assert plan["order_kind"] == "shuffled"
    assert plan["planned_at"] == spec["created"]  # inference 3
    assert (plan["tasks"], plan["attempts"]) == (shuffled, 3)
    assert plan["run_id"] == f"addition_{spec['task_id']}"
    assert plan["agent_models"] == ["careful+generate:mockllm/model"]
    assert plan["metrics"] == {"graded": {}, "quality/style": {}, "quality/length": {}}


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


def test_the_end_of_an_early_logs_retry_counts_although_its_times_have_no_zone(tmp_path: Path) -> None:
    """As in logs of May 2024."""
    for hour, status in (("03", "error"), ("04", "success")):
        time = f"2024-05-05T{hour}:00:00"
        log = {"version": 2, "status": status, "eval": a_spec(created=time), "stats": {"completed_at": time}}
        log["samples"] = [a_summary(uuid=None)]
        write_json(tmp_path / f"2024-05-05T{hour}-00-00_addition_T1.json", log)
    events, _ = converted(tmp_path)
    assert [event.get("status") for event in events if event["type"] == "run_finished"] == ["success"]


def test_a_recovered_log_ends_the_run_that_was_lost(tmp_path: Path) -> None:
    """As `inspect log recover` writes it, beside the log of the eval that was killed."""
    lost = {"_journal/start.json": {"eval": a_spec(), "plan": A_PLAN}}
    an_archive(tmp_path / "x.eval", lost | {"_journal/summaries/1.json": [a_summary()]})
    ended = {"completed_at": "2026-01-02T03:04:09+00:00"}
    a_log(tmp_path / "x-recovered.eval", a_summary(), status="error", stats=ended)
    events, _ = converted(tmp_path)
    assert [event.get("status") for event in events if event["type"] == "run_finished"] == ["error"]
    assert len(trials_of(events)) == 1


def test_a_log_that_keeps_no_samples_is_said(tmp_path: Path) -> None:
    """As `--no-log-samples` leaves it; a log that keeps them may have none yet."""
    log = a_log(tmp_path / "x.eval", spec=a_spec(config={"log_samples": False}))
    events, report = converted(log)
    assert [event["type"] for event in events] == ["run_started", "run_finished"]
    assert report.unreadable == [(log, NO_SAMPLES)]
    assert not converted(a_log(tmp_path / "y.eval", spec=a_spec(config={"log_samples": True})))[1].unreadable


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
        {"the score 'words' is 'lovely', which is not a number": 2, "the score 'parts' is a list": 2},
    )


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        (None, "an object belongs here, not a JSON NoneType"),
        ({"epoch": 1}, "`id` is None, not a whole number or a string of 1 to 512 characters"),
        (a_summary(id=1.5), "`id` is 1.5, not a whole number or a string of 1 to 512 characters"),
        (a_summary(id=[1]), "`id` is [1], not a whole number or a string of 1 to 512 characters"),
        (
            a_summary(id="x" * 513),
            f"`id` is '{'x' * 59}, not a whole number or a string of 1 to 512 characters",
        ),
    ],
)
def test_what_is_no_sample_is_reported_and_the_others_are_read(
    tmp_path: Path, summary: object, wrong: str
) -> None:
    a_log(tmp_path / "x.eval", summary, a_summary(id=2))
    events, report = converted(tmp_path)
    assert [trial["task_id"] for trial in trials_of(events)] == ["2"]
    assert report.unreadable == [(tmp_path / "x.eval", f"sample 1: {wrong}")]


def test_agent_and_model_can_be_named_where_the_log_names_none(tmp_path: Path) -> None:
    spec = a_spec(model=None)
    a_log(tmp_path / "x.eval", a_summary(), spec=spec, plan={})
    events, _ = converted(tmp_path, agent="me", model="mine")
    assert [(trial["agent"], trial["model"]) for trial in trials_of(events)] == [("me", "mine")]


# -----------------------------------------------------------------------------
# Records of inspect_ai as events: fields that logs leave out, and odd ones.


WRITTEN_NS = 7


def event_of(**fields: Any) -> dict[str, Any]:
    return trial_event(a_spec(), A_PLAN, a_summary(**fields), WRITTEN_NS)[0]


def test_a_summary_becomes_a_trial() -> None:
    assert event_of() == {
        "type": "trial_result",
        "harness": "inspect",
        "task_id": "1",
        "attempt": 1,
        "agent": "generate",
        "model": "mockllm/model",
        "revision": 1767323048500000000,
        "trial_id": "u1",
        "resolved": True,
        "failure_mode": "unset",
        "metrics": {"match": 1.0},
        "input_tokens": 10,
        "output_tokens": 3,
        "duration_seconds": 2.5,
        "started_at": "2026-01-02T03:04:06+00:00",
        "finished_at": "2026-01-02T03:04:08.500000+00:00",
    }


def test_a_sample_and_its_summary_give_the_same_event() -> None:
    summary = {"error": "ValueError('no')", "limit": "time"}
    sample = {
        "error": {"message": "ValueError('no')", "traceback": "..."},
        "limit": {"type": "time", "limit": 9},
    }
    assert event_of(**summary) == event_of(**sample)
    assert event_of(**summary)["failure_mode"] == "ValueError"


def test_a_sample_without_its_time_has_the_time_of_writing() -> None:
    assert event_of(completed_at=None)["revision"] == WRITTEN_NS
    assert event_of(completed_at="yesterday")["revision"] == WRITTEN_NS


def test_tokens_and_cost_are_those_of_the_model_under_test() -> None:
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 9, "total_cost": 0.25}
    cached = {"input_tokens_cache_read": 2, "input_tokens_cache_write": 1}
    event = event_of(model_usage={"mockllm/model": usage | cached, "openai/grader": {"input_tokens": 900}})
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")
    assert [event[name] for name in tokens] == [5, 1, 2, 1, 0.25]
    assert not event_of(model_usage={"openai/grader": usage}).keys() & set(tokens)


@pytest.mark.parametrize(
    ("error", "mode"),
    [
        ("RuntimeError('no such tool')", "RuntimeError"),
        ("CancelledError('Cancelled via cancel scope 7f9f')", "CancelledError"),
        ("Cancelled()", "CancelledError"),  # as trio names it
        ("Sandbox(docker) is gone", "error"),
        ("Error code: 429 - too many requests", "error"),
        ({"message": "KeyError('x')"}, "KeyError"),
        ({}, "error"),
        (None, "unset"),
    ],
)
def test_the_class_of_an_error_is_the_failure_mode(error: object, mode: str) -> None:
    assert event_of(error=error)["failure_mode"] == mode


def test_a_long_message_is_not_cut_before_its_secrets_are_removed() -> None:
    """`fit_event` does both. Half a key would not look like one."""
    assert event_of(error="x" * 10_000)["message"] == "x" * 10_000


def test_the_verdict_is_that_of_the_first_scorer_that_has_one() -> None:
    scores = {"judge": {"value": 0.9}, "first": {"value": "I"}, "second": {"value": "C"}}
    assert event_of(scores=scores)["resolved"] is False
    assert "resolved" not in event_of(scores={"judge": {"value": 1.0}, "half": {"value": "P"}})
    assert "resolved" not in event_of(scores={"parts": {"value": {"a": "C"}}})


@pytest.mark.parametrize(
    ("value", "alone", "accurate"),
    [
        *(("C", True, True), ("I", False, False), (True, True, True), (False, False, False)),
        *((1, None, True), (0, None, False), (1.0, None, True), (0.0, None, False), ("1", None, True)),
        *(("yes", None, True), ("no", None, False), ("N", None, False)),  # as inspect_ai counts them
        *((0.65, None, None), (7, None, None), ("P", None, None), ("lovely", None, None), ([1], None, None)),
        *((float("nan"), None, None), (None, None, None)),
    ],
)
def test_a_number_is_a_verdict_only_where_inspect_takes_its_accuracy(
    value: object, alone: bool | None, accurate: bool | None
) -> None:
    """R31. Without accuracy among its statistics, a scorer's number is a metric alone."""
    scores = {"f": {"value": value}}
    assert read_scores(scores).resolved is alone
    assert read_scores(scores, {"f"}).resolved is accurate


@pytest.mark.parametrize("value", [float("nan"), None, "P"])
def test_r31_no_other_scorer_decides_where_the_first_with_accuracy_gives_no_verdict(value: object) -> None:
    """Else the pass rate would mix two scorers, and be the accuracy of neither."""
    scores = {"judge": {"value": value}, "match": {"value": "C"}}
    assert read_scores(scores, {"judge", "match"}).resolved is None
    assert read_scores(scores, {"match"}).resolved is True


def test_r31_the_scorer_of_the_headline_metric_gives_the_verdict() -> None:
    scores = {"match": {"value": "I"}, "judge": {"value": "C"}, "size": {"value": 3}}

    def resolved(**headline: str) -> Any:
        spec = a_spec(headline_metric=headline)
        return trial_event(spec, A_PLAN, a_summary(scores=scores), WRITTEN_NS)[0]["resolved"]

    assert resolved() is False
    assert resolved(scorer="judge", metric="accuracy") is True
    assert resolved(scorer="match", score="judge") is True
    assert resolved(scorer="size") is resolved(scorer="another") is False


def test_statistics_of_the_eval_replace_those_of_its_scorers() -> None:
    """As `Task(metrics=...)` does in inspect_ai."""
    accuracy, mean = {"name": "inspect_ai/accuracy"}, {"name": "inspect_ai/mean"}

    def resolved(scorer: Any, whole: Any) -> Any:
        spec = a_spec(scorers=[{"name": "match", "metrics": scorer}], metrics=whole)
        summary = a_summary(scores={"match": {"value": 1}})
        return trial_event(spec, A_PLAN, summary, WRITTEN_NS)[0].get("resolved")

    assert [resolved([accuracy], None), resolved([mean], None), resolved(None, None)] == [True, None, None]
    assert [resolved([mean], [accuracy]), resolved([accuracy], [mean])] == [True, None]
    assert resolved([accuracy], {"match": [accuracy]}) is None, "statistics of a dictionary's entries"
    grouped = {"name": "inspect_ai/grouped", "options": {"metric": {"name": "accuracy"}, "group_key": "kind"}}
    assert resolved([grouped], None) is True


def test_usage_under_another_models_name_is_said(tmp_path: Path) -> None:
    """R35: nobody takes it for unknown tokens of the model under test, nor for none."""
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    a_log(tmp_path / "x.eval", a_summary(model_usage={"azure/gpt": usage}), a_summary(id=2, model_usage={}))
    events, report = converted(tmp_path)
    assert not any("input_tokens" in trial for trial in trials_of(events))
    [remarks] = report.remarks.values()
    assert (remarks.what, remarks.details) == (OTHER_MODEL, {"mockllm/model used none, azure/gpt did": 1})
    fallback = [{"model": "mockllm/model", "fallback_model": "mockllm/small", "count": 2}]
    _, said = trial_event(a_spec(), A_PLAN, a_summary(model_fallbacks=fallback), WRITTEN_NS)
    assert said == [(OTHER_MODEL, "mockllm/small answered for mockllm/model")]


def test_the_agent_is_the_solver_of_the_eval_else_those_of_the_plan() -> None:
    assert agent_of({"solver": "react"}, A_PLAN) == "react"
    assert agent_of({}, {"steps": [{"solver": "react"}, "odd", {"solver": 7}]}) == "react"
    assert agent_of({}, {"steps": None}) is None


def test_a_run_without_the_name_of_a_task_has_none() -> None:
    assert run_id_of({"task_id": "x"}) is None
    assert run_id_of({"task": "t"}) == "t"


def test_a_plan_tells_what_the_specification_says() -> None:
    spec = a_spec(task_version=2, config={"epochs": 2, "max_samples": 4})
    assert started_event(spec, A_PLAN) == {
        "type": "run_started",
        "harness": "inspect",
        "revision": 1767323045000000000,
        "started_at": "2026-01-02T03:04:05+00:00",
        "planned_at": "2026-01-02T03:04:05+00:00",
        "tasks": ["1", "2"],
        "attempts": 2,
        "order": ["1", "2", "1", "2"],
        "concurrency": 4,
        "agent_models": ["generate:mockllm/model"],
        "benchmark": "addition",
        "benchmark_version": "2",
        "metrics": {"match": {}},
        "provenance": {"dataset_version": "2", "limits": "none", "concurrency": "4"},
    }


def test_a_queue_too_long_for_an_event_is_not_told() -> None:
    spec = a_spec(dataset={"sample_ids": [1, 2], "shuffled": True}, config={"epochs": MAX_QUEUE})
    assert "order" not in started_event(spec, A_PLAN)


def test_a_plan_without_ids_or_model_leaves_them_out() -> None:
    named = {"type": "run_started", "harness": "inspect", "benchmark": "t"}
    event = started_event({"task": "t", "dataset": {"samples": 9}}, {})
    assert event == named | {"revision": 0, "attempts": 1}


def test_metrics_are_planned_under_the_names_that_inspect_gives_scores() -> None:
    scorers = [
        {"name": "inspect_ai/match"},
        {"name": "mine/match"},
        {"name": "judge", "metrics": {"style": [], "a b": [], "*": []}},
        {"name": ""},
        "odd",
    ]
    assert planned_metrics({"scorers": scorers}) == ["match", "match1", "judge/style", "judge/a_b"]
    assert planned_metrics({"scorers": None}) == []


def test_keys_among_statistics_of_the_whole_are_planned_and_patterns_are_not() -> None:
    """As inspect_ai writes `metrics=[mean(), {"style": [mean()], "t_*": [mean()]}]`."""
    mean = {"name": "inspect_ai/mean", "options": {}}
    metrics = [mean, {"style": [mean], "t_*": [mean], "u?": [mean], "v[ab]": [mean], "name": [mean]}]
    scorers = [{"name": "judge", "metrics": metrics}, {"name": "match", "metrics": [mean]}]
    assert planned_metrics({"scorers": scorers}) == ["judge/style", "judge/name", "match"]


def test_only_an_eval_that_has_ended_has_an_end_which_says_how() -> None:
    for status in (None, "", "started"):
        assert finished_event(status, {"completed_at": "2026-01-02T03:04:05+00:00"}) is None
    end = {"type": "run_finished", "revision": 0, "status": "cancelled"}
    assert finished_event("cancelled", {"completed_at": ""}) == end


def test_a_start_is_below_the_result_of_its_slot() -> None:
    summary = {"id": 1, "epoch": 1, "started_at": "2026-01-02T03:04:06+00:00"}
    start = start_event(a_spec(), A_PLAN, summary, WRITTEN_NS)
    assert start == {
        "type": "trial_started",
        "task_id": "1",
        "attempt": 1,
        "agent": "generate",
        "model": "mockllm/model",
        "revision": 1767323046000000000,
        "started_at": "2026-01-02T03:04:06+00:00",
    }
    assert start["revision"] < event_of()["revision"]
    assert start_event(a_spec(), A_PLAN, {"id": 1}, WRITTEN_NS)["revision"] == WRITTEN_NS


ODD = [None, True, -1, 10**400, float("nan"), "x", "\ud800", [], {}, [[]], {"value": [1]}]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_records_with_odd_values_raise_nothing(odd: Any) -> None:
    """Connectors never raise on the contents of files: what does not fit is left out later, by the schema."""
    spec, summary = a_spec(config={"epochs": 1, "max_samples": 1}), a_summary(limit="time", error="e")
    for name in spec:
        started_event(spec | {name: odd}, {"steps": odd})
        trial_event(spec | {name: odd}, {"steps": odd}, summary, WRITTEN_NS)
    for name in ("dataset", "config"):
        for inner in ("sample_ids", "shuffled", "epochs", "max_samples"):
            started_event(spec | {name: {inner: odd}}, {"steps": [odd]})
    for name in summary:
        trial_event(spec, A_PLAN, summary | {name: odd}, WRITTEN_NS)
        start_event(spec, A_PLAN, {"id": 1, name: odd}, WRITTEN_NS)
    for scores in ({"s": odd}, {"s": {"value": odd}}, {"s": {"value": {"k": odd}}}):
        trial_event(spec, A_PLAN, summary | {"scores": scores}, WRITTEN_NS)
    for usage in ({"mockllm/model": odd}, {"mockllm/model": {"total_cost": 0, "total_tokens": odd}}):
        trial_event(spec, A_PLAN, summary | {"model_usage": usage}, WRITTEN_NS)
    finished_event(odd, {"completed_at": odd})
    assert len(planned_metrics({"scorers": [odd, {"name": odd}, {"name": "n", "metrics": odd}]})) <= 2


# -----------------------------------------------------------------------------
# The files of inspect_ai: which members of an archive are read, and which are refused.


START = {"_journal/start.json": {"version": 2, "eval": a_spec(), "plan": A_PLAN}}


@pytest.mark.parametrize("name", ["x.eval", "2026-01-02T03-04-05_addition_T2.json"])
def test_an_empty_log_is_reported(tmp_path: Path, name: str) -> None:
    a_log(tmp_path / "whole.eval", a_summary())
    write_json(tmp_path / "notes.json", "")
    empty = write_json(tmp_path / name, "")
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == 1
    assert [path for path, _ in report.unreadable] == [empty]


def test_a_log_is_known_by_its_first_bytes(inspect_logs: Path, tmp_path: Path) -> None:
    assert is_log(the_log(inspect_logs / "growing"))
    assert is_log(the_log(inspect_logs / "json"))
    (tmp_path / "x.eval").write_bytes(b"GIF89a")
    (tmp_path / "y.json").write_text('{"version": 2, "results": []}')
    os.mkfifo(tmp_path / "z.eval")
    assert not any(map(is_log, [*tmp_path.iterdir(), tmp_path, tmp_path / "missing.eval"]))


def test_a_journal_is_read_in_the_order_of_its_numbers_and_the_last_of_a_sample_counts(
    tmp_path: Path,
) -> None:
    journal = {
        f"_journal/summaries/{number}.json": [a_summary(id=number % 4, uuid=f"u{number}")]
        for number in (10, 2, 1, 9)
    }
    path = an_archive(tmp_path / "x.eval", START | journal)
    assert {summary["id"]: summary["uuid"] for summary in read_samples(path)} == {1: "u9", 2: "u10"}


def test_a_number_and_a_text_are_two_samples(tmp_path: Path) -> None:
    path = a_log(tmp_path / "x.eval", a_summary(id=1), a_summary(id="1"))
    assert len(list(read_samples(path))) == 2


def test_archives_of_older_versions_are_packed_otherwise(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.eval", "w", ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"eval": {"task": "t"}, "status": "success"}')
        archive.writestr("summaries.json", '[{"id": 1, "epoch": 1, "scores": {"f": {"value": NaN}}}]')
    assert read_header(tmp_path / "x.eval")["eval"] == {"task": "t"}
    assert [summary["id"] for summary in read_samples(tmp_path / "x.eval")] == [1]


def half(path: Path) -> None:
    whole = a_log(path, a_summary()).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def with_a_changed_byte(path: Path) -> None:
    content = bytearray(a_log(path, a_summary()).read_bytes())
    content[content.index(b"header.json") + len("header.json") + 30] ^= 0xFF
    path.write_bytes(content)


def of_another_method(path: Path) -> None:
    with ZipFile(path, "w", ZIP_BZIP2) as archive:
        archive.writestr("header.json", "{}")


def with_header(content: bytes, claimed: int | None = None) -> Callable[[Path], object]:
    size = len(content) if claimed is None else claimed
    return lambda path: an_archive(path, {"header.json": content}, {"header.json": size})


INVALID = "not a valid zip archive"


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (half, INVALID),
        (with_a_changed_byte, INVALID),
        (of_another_method, r"header\.json is packed with method 12"),
        (lambda path: an_archive(path, {"_journal/config_updates/1.json": {}}), r"no _journal/start\.json"),
        (with_header(b"{}", claimed=MAX_FILE_BYTES + 1), "too large: 67,108,865 bytes"),
        (with_header(b"[" + b" " * 50_000_000 + b"]", claimed=100), INVALID),  # not unpacked further
        (with_header(b"{"), "header.json is not valid JSON"),
        (with_header(b"\xff\xfe"), "header.json is not valid JSON"),
        (with_header(b"[" * 200_000), "header.json is not usable JSON: nested too deeply"),
        (with_header(b"[]"), "it has no object `eval`"),
        (with_header(b"{}"), "it has no object `eval`"),
    ],
)
def test_what_is_no_whole_log_is_refused_with_a_reason(
    tmp_path: Path, write: Callable[[Path], object], reason: str
) -> None:
    write(tmp_path / "x.eval")
    with pytest.raises(FileError, match=reason):
        read_header(tmp_path / "x.eval")


def test_members_are_limited_together_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"_journal/summaries/{number}.json": [a_summary(id=number)] for number in range(1, 9)}
    path = an_archive(tmp_path / "x.eval", START | many)
    assert len(list(read_samples(path))) == 8
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 2000)
    with pytest.raises(FileError, match="too large"):
        list(read_samples(path))


def test_a_directory_of_the_archive_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = an_archive(tmp_path / "x.eval", {"header.json": {"eval": a_spec()}, "n" * 60_000: b"{}"})
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 50_000)
    with pytest.raises(FileError, match="too large: 60,"):
        read_header(path)


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, None])
def test_a_member_with_the_right_checksum_is_not_said_to_be_cut_off(
    tmp_path: Path, method: int | None
) -> None:
    path = tmp_path / "x.eval"
    if method is None:
        an_archive(path, {"header.json": b'{"eval": '})
    else:
        with ZipFile(path, "w", method) as archive:
            archive.writestr("header.json", '{"eval": ')
    with pytest.raises(FileError, match=r"header\.json is not valid JSON .* its checksum is right") as caught:
        read_header(path)
    assert files.UNFINISHED not in str(caught.value)


@pytest.mark.parametrize("samples", [{}, "", 0, {"1": a_summary()}])
def test_samples_that_are_no_list_are_said(tmp_path: Path, samples: object) -> None:
    log = {"version": 2, "status": "success", "eval": a_spec(), "plan": A_PLAN}
    whole = write_json(tmp_path / "x.json", log | {"samples": samples})
    with pytest.raises(FileError, match=r"`samples` is a JSON \w+ instead of a list of samples"):
        list(read_samples(whole))
    packed = an_archive(tmp_path / "x.eval", {"header.json": log, "summaries.json": samples})
    with pytest.raises(FileError, match=r"summaries\.json is a JSON \w+ instead of a list of samples"):
        list(read_samples(packed))


def test_a_log_may_keep_no_samples(tmp_path: Path) -> None:
    log = {"version": 2, "status": "success", "eval": a_spec()}
    assert list(read_samples(write_json(tmp_path / "x.json", log))) == []
    assert list(read_samples(write_json(tmp_path / "y.json", log | {"samples": None}))) == []


# -----------------------------------------------------------------------------
# Cases of the field; test_field.py has their numbers.


def test_an_odd_id_costs_itself_and_not_the_plan() -> None:
    """Control characters and half characters become U+FFFD. An empty id names no task, and that is said."""
    events, report = converted(FIELD / "inspect-one-bad-id-drops-plan")
    named = ["a/b", "..", "x\ufffdy", "\u00fc" * 300, "\ufffd\ufffd\ufffdbad", " ", "a:b|c", "trail "]
    assert plan_of(events)["tasks"] == plan_of(events)["order"] == named
    assert [trial["task_id"] for trial in trials_of(events)] == named
    assert [reason for _, reason in report.unreadable] == [
        "sample 7: `id` is '', not a whole number or a string of 1 to 512 characters"
    ]
    assert report.left_out == []


# -----------------------------------------------------------------------------
# What older versions wrote.


@pytest.mark.parametrize("version", OLDER)
def test_logs_of_older_versions_have_a_plan_verdicts_and_failures(version: str, older_logs: Path) -> None:
    """Recorded by record.py with these versions of inspect_ai itself; test_releases.py has the numbers."""
    events = converted(the_log(older_logs / version))[0]
    [summary] = summaries(events).values()
    assert plan_of(events)["metrics"] == {"graded": {}, "quality/style": {}, "quality/length": {}}
    assert {trial.get("resolved") for trial in trials_of(events)} == {True, False, None}
    assert summary["failure_modes"] == {"unset": 17, "RuntimeError": 1}


def test_the_one_score_of_the_oldest_logs_is_read(tmp_path: Path) -> None:
    """`score` in a sample, `scorer` and `metrics` in the results: inspect_ai reads them as its own still."""
    sample = {"id": 1, "epoch": 1, "score": {"value": 1}, "model_usage": {}}
    spec = {key: value for key, value in a_spec().items() if key != "scorers"}
    results = {"scorer": {"name": "match"}, "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}
    log = {"version": 1, "status": "success", "eval": spec, "results": results, "samples": [sample]}
    events, _ = converted(write_json(tmp_path / "2024-05-01T10-00-00_addition_T1.json", log))
    [trial] = trials_of(events)
    assert (trial["metrics"], trial["resolved"]) == ({"match": 1.0}, True)
    assert plan_of(events)["metrics"] == {"match": {}}


def test_r34_early_logs_without_a_task_id_are_runs_of_their_own(tmp_path: Path) -> None:
    spec = {key: value for key, value in a_spec().items() if key != "task_id"}
    log = {"version": 1, "status": "success", "eval": spec, "samples": [a_summary(uuid=None)]}
    for name in ("2024-05-01T10-00-00_addition_T1", "2024-05-01T11-00-00_addition_T2"):
        write_json(tmp_path / f"{name}.json", log)
    runs = [event["run_id"] for event in trials_of(converted(tmp_path)[0])]
    assert runs == ["addition_T1", "addition_T2"]


def test_r35_samples_with_one_id_are_said_because_one_replaces_the_other(tmp_path: Path) -> None:
    samples = [a_summary(uuid=None), a_summary(uuid=None, scores={"match": {"value": "I"}})]
    log = {"version": 2, "status": "success", "eval": a_spec(), "samples": samples}
    log["results"] = {"total_samples": 2}
    _, report = converted(write_json(tmp_path / "2026-01-02T03-04-05_addition_T1.json", log))
    assert report.notes == ["run addition_T1: 2 trials with a result announced, 1 found"]


def test_r35_a_sample_that_fits_no_event_is_not_counted_as_found(tmp_path: Path) -> None:
    log = a_log(tmp_path / "a.eval", a_summary(), a_summary(id=2, epoch="2"), results={"total_samples": 2})
    events, report = converted(log)
    assert report.notes == ["run addition_T1: 2 trials with a result announced, 1 found"]
    assert (len(report.unreadable), events[-1]["status"]) == (1, "interrupted")


def test_a_sample_that_cannot_be_read_leaves_its_summary_and_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = {"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}}
    members = {"header.json": {"eval": a_spec(), "status": "success"}, "summaries.json": [summary]}
    an_archive(tmp_path / "x.eval", members | {"samples/1_epoch_1.json": a_summary(store="x" * 9000)})
    assert trials_of(converted(tmp_path)[0])[0]["input_tokens"] == 10
    monkeypatch.setattr("streamer.sources.inspect.MAX_FILE_BYTES", 9000)
    events, report = converted(tmp_path)
    [trial] = trials_of(events)
    assert trial["resolved"] is True
    assert "input_tokens" not in trial
    assert [remarks.what for remarks in report.remarks.values()] == [NO_USAGE]


def test_samples_without_a_summary_are_read(tmp_path: Path) -> None:
    """As inspect_ai reads them: the samples are the log, and the summaries are made from them."""
    members: dict[str, Any] = {"header.json": {"eval": a_spec(), "status": "success"}}
    members |= {f"samples/{i}_epoch_1.json": a_summary(id=i) for i in (1, 2)}
    members["header.json"]["results"] = {"total_samples": 2}
    an_archive(tmp_path / "a.eval", members)
    an_archive(tmp_path / "b.eval", members | {"summaries.json": [a_summary(id=1)]})
    for log in sorted(tmp_path.iterdir()):
        events, report = converted(log)
        assert [trial["task_id"] for trial in trials_of(events)] == ["1", "2"]
        assert report.unreadable == []


@pytest.mark.parametrize("usage", [{}, None])
def test_tokens_that_a_summary_has_no_place_or_no_value_for_are_those_of_its_sample(
    tmp_path: Path, usage: object
) -> None:
    sample = a_summary()
    summary = {name: sample[name] for name in ("id", "epoch", "scores")} | {"model_usage": usage}
    members = {"header.json": {"eval": a_spec(), "status": "success"}, "samples/1_epoch_1.json": sample}
    log = an_archive(tmp_path / "a.eval", members | {"summaries.json": [summary]})
    assert trials_of(converted(log)[0])[0]["input_tokens"] == 10
    summary = sample | {"model_usage": {}}
    asked_no_model = an_archive(tmp_path / "b.eval", members | {"summaries.json": [summary]})
    assert "input_tokens" not in trials_of(converted(asked_no_model)[0])[0]


@pytest.mark.parametrize("order", [sorted, lambda keys: sorted(keys, reverse=True)])
def test_a_json_log_is_one_in_any_order_of_its_keys(tmp_path: Path, order: Any) -> None:
    log = {"version": 2, "status": "success", "eval": a_spec(), "plan": {}, "samples": [a_summary()]}
    name = "2026-01-02T03-04-05-00-00_addition_T1.json"
    write_json(tmp_path / name, {key: log[key] for key in order(log)})
    write_json(tmp_path / name.replace("T1", "T2"), {"version": 2, "status": "success", "plan": {}})
    events, report = converted(tmp_path)
    assert (len(trials_of(events)), report.runs, report.unreadable) == (1, ["addition_T1"], [])


def test_r35_samples_that_somebody_invalidated_are_said_and_count(tmp_path: Path) -> None:
    """Summaries do not say it; inspect_ai's metrics count such samples, too."""
    samples = {i: a_summary(id=i, epoch=1) for i in (1, 2)}
    because = {"timestamp": "2026-10-16T10:00:00Z", "author": "me", "reason": "the sandbox was broken"}
    members = {f"samples/{i}_epoch_1.json": sample for i, sample in samples.items()}
    members["samples/2_epoch_1.json"] = samples[2] | {"invalidation": because}
    header = {"eval": a_spec(), "status": "success", "invalidated": True}
    log = tmp_path / "a.eval"
    an_archive(log, {"header.json": header, "summaries.json": list(samples.values()), **members})
    events, report = converted(log)
    assert len(trials_of(events)) == 2
    [note] = map(str, report.remarks.values())
    assert "1 trial marked invalid in the log, counted until run again" in note
    assert note.endswith("the sandbox was broken")


def test_samples_that_inspects_own_metrics_leave_out_are_said(tmp_path: Path) -> None:
    """R35. An excluded sample has no mark that is documented, but the log counts what its metrics rest on."""
    cases = {(2, 0): 1, (2, 1): 0, (1, 1): 1, (3, 0): 0, (None, 0): 0}
    for number, (of_log, left) in enumerate(cases.items()):
        samples = [a_summary(id=i, epoch=epoch) for i in (1, 2, 3) for epoch in (1, 2)]
        failed = a_summary(id=4, epoch=1, error={"message": "crashed", "traceback": "", "traceback_ansi": ""})
        [name] = samples[0]["scores"]
        counts = dict(zip(("scored_samples", "unscored_samples"), of_log, strict=True))
        score = {"name": name, "scorer": name, "metrics": {}} | counts
        log = a_log(tmp_path / f"{number}.eval", *samples, failed, results={"scores": [score]})
        said = f"run addition_T1: inspect_ai's metrics leave out {left} of 3 scores of {name}; all count"
        assert converted(log)[1].notes == ([said] if left else []), of_log


def test_r35_tokens_that_only_the_whole_log_counts_are_said(tmp_path: Path) -> None:
    """inspect_ai counts each try of `retry_on_error`; a sample has the usage of its last one."""
    for whole, said in (
        (1300, ["its samples have 300 of 1,300 tokens of mockllm/model"]),
        (300, []),
        (9, []),
    ):
        samples = [a_summary(id=i, model_usage={"mockllm/model": {"total_tokens": 100 * i}}) for i in (1, 2)]
        stats = {"model_usage": {"mockllm/model": {"total_tokens": whole}, "other": {"total_tokens": 7}}}
        notes = converted(a_log(tmp_path / f"{whole}.eval", *samples, stats=stats))[1].notes
        assert [note.partition("; ")[0].partition(": ")[2] for note in notes] == said


def test_samples_that_the_log_lacks_are_said_and_the_run_is_not_complete(tmp_path: Path) -> None:
    """R35. A log that says nothing, or that was stopped, promises none."""
    whole = a_log(tmp_path / "a.eval", a_summary(), results={"total_samples": 3})
    pooled, report = converted(whole, run_id="pool")
    assert report.notes == ["run addition_T1: 3 trials with a result announced, 1 found"]
    in_text = a_log(tmp_path / "text.eval", a_summary(), results={"total_samples": "3"})
    assert converted(in_text)[1].notes == report.notes
    assert joined_plan(pooled).get("plan_complete") is False
    for members in (
        {"results": {"total_samples": 3, "logged_samples": 1}},
        {"results": {"total_samples": 3, "early_stopping": {"manager": "m"}}},
        {"results": {"total_samples": 3}, "status": "cancelled"},
        {"results": {"total_samples": 1}},
        {"results": None},
    ):
        events, report = converted(a_log(tmp_path / "b.eval", a_summary(), **members))
        assert report.notes == []
        assert "plan_complete" not in plan_of(events)


@pytest.mark.parametrize("status", ["cancelled", "error"])
def test_r35_a_stopped_eval_says_completed_samples_that_its_log_lacks(tmp_path: Path, status: str) -> None:
    counts = {"total_samples": 5, "completed_samples": 3}
    events, report = converted(a_log(tmp_path / "a.eval", a_summary(), results=counts, status=status))
    assert report.notes == ["run addition_T1: 3 trials with a result announced, 1 found"]
    assert events[-1]["status"] == status


def test_r35_tokens_that_only_the_whole_log_has_are_said(tmp_path: Path) -> None:
    """As development versions of October 2024 wrote it."""
    used = {"stats": {"model_usage": {"m": {"input_tokens": 66}}}}
    _, report = converted(a_log(tmp_path / "a.eval", a_summary(model_usage={}), **used))
    [remarks] = report.remarks.values()
    assert (remarks.what, *remarks.details) == (NO_USAGE, "only the whole log has them")
    for samples in ([a_summary(model_usage={}), a_summary(id=2)], [a_summary()]):
        assert not converted(a_log(tmp_path / "b.eval", *samples, **used))[1].remarks


def test_r31_an_eval_that_nothing_scores_has_no_pass_rate_until_it_is_scored(tmp_path: Path) -> None:
    """As `--no-score` leaves it, or a task without a scorer. `inspect score` adds the scores."""
    unscored = converted(a_log(tmp_path / "0.eval", a_summary(scores=None)))[0]
    scored = converted(scored_log(tmp_path / "1.eval", {"match": "C"}, 3))[0]
    for events, accuracy in ((unscored, None), (unscored + scored, 1.0), (scored + unscored, 1.0)):
        [summary] = summaries(events).values()
        assert (summary["accuracy"], summary["trials"]) == (accuracy, 1)
    for status in ("cancelled", "error"):
        stopped = a_log(tmp_path / "2.eval", a_summary(scores=None), status=status)
        [summary] = summaries(converted(stopped)[0]).values()
        assert (summary["accuracy"], summary["trials"]) == (None, 1), status
    failed = a_log(tmp_path / "3.eval", a_summary(scores=None, error={"message": "E"}))
    running = a_log(tmp_path / "4.eval", a_summary(scores=None), status="started")
    for log in (failed, running):
        assert "verdicts" not in plan_of(converted(log)[0])


# -----------------------------------------------------------------------------
# Logs that `inspect score` has written again: it leaves `completed_at`, and its scores are in transcripts.


SCORED_AGAIN = ["trial_result", "trial_scored"]
CHANGES = [
    {"changes": [{"config": "eval", "name": "time_limit", "value": 1200}], "scope": "task"},
    {
        "changes": [
            {"config": "eval", "name": "max_samples", "value": 9},
            {"config": "eval", "name": "token_limit", "value": 50, "previous": None},
            {"config": "concurrency", "name": "docker_limit", "value": 2},
        ]
    },
]


def scored_log(path: Path, scores: Event, *minutes: int, spec: Event | None = None, **fields: Any) -> Path:
    """A log whose sample was scored at these minutes after 03:04; it ended at second 8.5 of minute 4."""
    sample = a_summary(scores={name: {"value": value} for name, value in scores.items()}, **fields)
    times = [f"2026-01-02T03:{4 + minute:02}:07+00:00" for minute in minutes]
    events = [{"event": "model"}, *({"event": "score", "timestamp": time} for time in times)]
    header = {"version": 2, "status": "success", "eval": spec or a_spec(), "plan": A_PLAN}
    members = {"header.json": header, "summaries.json": [sample]}
    return an_archive(path, members | {"samples/1_epoch_1.json": sample | {"events": events}})


def test_the_newest_scores_count_in_any_order_of_arrival(tmp_path: Path) -> None:
    """A first log without scores, then two scorings of it (R32)."""
    late, later = {"match": "C"}, {"match": "C", "judge": 0.25}
    logs = [
        scored_log(tmp_path / "0.eval", {}),
        scored_log(tmp_path / "1.eval", late | {"judge": 0.5}, 3),
        scored_log(tmp_path / "2.eval", later, 3, 9),
    ]
    _, result, scored, end = converted(logs[2])[0]
    assert [event["type"] for event in (result, scored, end)] == [*SCORED_AGAIN, "run_finished"]
    assert scored["of_revision"] == result["revision"]
    for order in permutations(logs):
        [summary] = summaries(event for log in order for event in converted(log)[0]).values()
        assert (summary["resolved"], summary["verdict_trials"]) == (1, 1), order
        assert {name: metric["mean"] for name, metric in summary["metrics"].items()} == {
            "match": 1.0,
            "judge": 0.25,
        }, order


def test_a_sample_to_which_the_later_scorer_gave_nothing_hides_no_scores_of_the_others(
    tmp_path: Path,
) -> None:
    """The shortest transcript is its; inspect_ai writes no score where a scorer returns none."""
    samples = [a_summary(id=number, uuid=f"u{number}") for number in (1, 2)]
    times = ["2026-01-02T03:04:07+00:00", "2026-01-02T03:09:07+00:00"]
    scores = [{"event": "score", "timestamp": time} for time in times]
    transcripts = {
        "samples/1_epoch_1.json": samples[0] | {"events": scores[:1]},
        "samples/2_epoch_1.json": samples[1] | {"events": scores},
    }
    header = {"version": 2, "status": "success", "eval": a_spec(), "plan": A_PLAN}
    log = an_archive(tmp_path / "x.eval", {"header.json": header, "summaries.json": samples} | transcripts)
    assert [event["type"] for event in converted(log)[0]][1:-1] == SCORED_AGAIN * 2


def test_the_plan_of_a_scored_log_counts(tmp_path: Path) -> None:
    """Its scorers are more than the first log's; both plans were made at one time."""
    scorers = [*a_spec()["scorers"], {"name": "judge", "metrics": [{"name": "mean"}]}]
    logs = [
        scored_log(tmp_path / "0.eval", {"match": "C"}, 0),
        scored_log(tmp_path / "1.eval", {"match": "C", "judge": 1.0}, 3, spec=a_spec(scorers=scorers)),
    ]
    for order in permutations(logs):
        plan = joined_plan([event for log in order for event in converted(log)[0]])
        assert (plan.get("metrics") or {}).keys() == {"match", "judge"}, order


def test_what_was_scored_again_replaces_the_first_verdict_unless_the_sample_ran_again(tmp_path: Path) -> None:
    first = scored_log(tmp_path / "0.eval", {"match": "C"}, 0)
    scored = scored_log(tmp_path / "1.eval", {"match": "I", "judge": 1.0}, 30)
    again = scored_log(tmp_path / "2.eval", {"match": "C"}, completed_at="2026-01-02T03:05:00+00:00")
    for logs, resolved, metrics in (
        ((first, scored), 0, {"match", "judge"}),
        ((scored, again), 1, {"match"}),
    ):
        for order in permutations(logs):
            [summary] = summaries(event for log in order for event in converted(log)[0]).values()
            assert (summary["resolved"], summary["metrics"].keys()) == (resolved, metrics), order
            assert (summary["superseded"], summary["conflicts"]) == (1, 0), order


def test_r36_limits_that_changed_while_the_eval_ran_are_all_in_its_plan(tmp_path: Path) -> None:
    """`inspect ctl config --time-limit 1200`; inspect_ai keeps the specification as it was."""
    spec = a_spec(config={"epochs": 1, "time_limit": 600, "max_samples": 4})
    began = an_archive(tmp_path / "0.eval", {"_journal/start.json": {"eval": spec, "plan": A_PLAN}})
    ended = a_log(tmp_path / "1.eval", a_summary(), spec=spec, config_updates=CHANGES)
    for order in permutations((began, ended)):
        plan = joined_plan([event for log in order for event in converted(log)[0]])
        made = plan.get("provenance") or {}
        limits = "time=600 then 1200,token=none then 50"
        assert (made["limits"], made["concurrency"]) == (limits, "4"), order


@pytest.mark.parametrize("suffix", [".eval", ".json"])
@pytest.mark.parametrize(("first", "edited"), [("C", "I"), ("I", "C")])
def test_r32_an_edited_score_counts_in_any_order_of_arrival(
    tmp_path: Path, suffix: str, first: str, edited: str
) -> None:
    """`edit_score` adds an event to the transcript of its sample; here it is the longest of eight."""

    def a_log_with(folder: str, value: str, *edits: Event) -> Path:
        header = {"version": 2, "status": "success", "eval": a_spec(), "plan": A_PLAN}
        samples = [
            a_summary(id=number, uuid=f"u{number}", scores={"match": {"value": "C" if number > 1 else value}})
            for number in range(1, 9)
        ]
        events = [{"event": "model"}, {"event": "score", "timestamp": "2026-01-02T03:04:07+00:00"}]
        whole = [samples[0] | {"events": [*events, *edits]}] + [one | {"events": []} for one in samples[1:]]
        if suffix == ".json":
            return write_json(tmp_path / folder / "x.json", header | {"samples": whole})
        members = {f"samples/{one['id']}_epoch_1.json": one for one in whole}
        return an_archive(
            tmp_path / folder / "x.eval", {"header.json": header, "summaries.json": samples} | members
        )

    edit = {"event": "score_edit", "timestamp": "2026-01-03T00:00:00+00:00", "score_name": "match"}
    logs = [a_log_with("first", first), a_log_with("edited", edited, edit)]
    for order in permutations(logs):
        [summary] = summaries(event for log in order for event in converted(log)[0]).values()
        assert (summary["resolved"], summary["conflicts"]) == (7 + (edited == "C"), 0), order


@pytest.mark.parametrize(
    ("scores", "minutes", "fields"),
    [
        pytest.param({"match": "C"}, (), {}, id="never"),
        pytest.param({"match": "C"}, (0,), {}, id="as it ran"),
        pytest.param({"match": "C"}, (3,), {"completed_at": None}, id="a version without that time"),
        pytest.param({}, (3,), {}, id="without a score"),
    ],
)
def test_scores_of_the_run_itself_are_no_late_scores(
    tmp_path: Path, scores: Event, minutes: tuple[int, ...], fields: Event
) -> None:
    events, report = converted(scored_log(tmp_path / "0.eval", scores, *minutes, **fields))
    assert [event["type"] for event in events[1:-1]] == SCORED_AGAIN[:1]
    assert report.unreadable == []


# -----------------------------------------------------------------------------
# Shards of one run (R34), laid out as inspect_ai says: NAME.shards/K/LOG.eval, merged into NAME.eval.


SHARDS = "2026-10-16T10-00-00-00-00_addition_RLGk3vGh7Az.shards"


def a_shard(folder: Path, number: int, *ids: int, minute: int = 4, **members: Any) -> Path:
    """The log of a worker that ran these samples."""
    spec = a_spec(
        task_id=f"T{number}{minute}",
        created=f"2026-01-02T03:{minute:02}:05+00:00",
        dataset={"samples": 4, "sample_ids": list(ids), "shuffled": False},
    )
    ended = {"completed_at": f"2026-01-02T03:{minute:02}:59+00:00"}
    samples = [a_summary(id=i, uuid=f"u{i}-{minute}", completed_at=ended["completed_at"]) for i in ids]
    return a_log(
        folder / SHARDS / str(number) / f"{minute}.eval", *samples, spec=spec, stats=ended, **members
    )


def test_a_shard_outside_a_directory_of_shards_is_a_run_of_its_own_and_said(tmp_path: Path) -> None:
    """Nothing in its log says that it is a shard (R34)."""
    for number, ids in enumerate([(1, 2), (3, 4)]):
        a_shard(tmp_path, number, *ids)
    assert converted(tmp_path)[1].notes == []
    (tmp_path / SHARDS).rename(tmp_path / "workers")
    report = converted(tmp_path)[1]
    assert len(report.runs) == 2
    asked = "it has 2 of 4 samples. If it is a shard, name its parent directory NAME.shards"
    assert report.notes == [f"run {run}: {asked}" for run in report.runs]


def end_of(events: list[Event]) -> str | None:
    end = joined_plan(events).finished
    return end and end.status


def test_shards_are_one_run_with_the_samples_of_all() -> None:
    events, report = converted(FIELD / "inspect-two-shards")
    assert report.runs == ["addition_RLGk3vGh7Az"]
    assert {event["run_id"] for event in events} == {"addition_RLGk3vGh7Az"}
    assert not any("shard" in trial for trial in trials_of(events)), "the merged log's trials have none"
    plan = joined_plan(events)
    assert plan.get("tasks") == [f"sum-{number}" for number in range(1, 7)]
    assert (plan.parts, end_of(events)) == ({"seen": 2, "planned": 2}, "success")


def test_a_run_ends_when_all_of_its_shards_have(tmp_path: Path) -> None:
    a_shard(tmp_path, 0, 1, 2)
    a_shard(tmp_path, 10, 3, status="started")
    events, _ = converted(tmp_path)
    assert joined_plan(events).get("tasks") == ["1", "2", "3"]
    assert end_of(events) is None
    a_shard(tmp_path, 10, 3, status="error")
    assert end_of(converted(tmp_path)[0]) == "error"


@pytest.mark.parametrize("broken", [half, lambda path: path.write_bytes(b"")])
def test_r35_a_run_with_a_broken_shard_is_not_complete(
    tmp_path: Path, broken: Callable[[Path], object]
) -> None:
    a_shard(tmp_path, 0, 1, 2)
    broken(a_shard(tmp_path, 1, 3))
    (tmp_path / SHARDS / "2").mkdir()
    events, _ = converted(tmp_path)
    plan = joined_plan(events)
    assert (plan.parts, end_of(events)) == ({"seen": 1, "planned": 2}, None)
    assert plan.get("plan_complete") is False


def test_a_worker_that_ran_again_takes_the_place_of_its_first_try(tmp_path: Path) -> None:
    a_shard(tmp_path, 0, 1, 2, status="error")
    a_shard(tmp_path, 1, 3)
    a_shard(tmp_path, 0, 1, 2, minute=9)
    events, _ = converted(tmp_path)
    assert end_of(events) == "success"
    [summary] = summaries(events).values()
    assert (summary["trials"], summary["runs_planned"], summary["superseded"]) == (3, 3, 2)


def test_the_merged_log_is_the_same_run_and_adds_nothing(tmp_path: Path) -> None:
    """Its task id is in the name of the shards' folder, as inspect_ai takes it from there when it merges."""
    a_shard(tmp_path, 0, 1, 2)
    a_shard(tmp_path, 1, 3)
    parts = converted(tmp_path)[0]
    samples = [sample for log in tmp_path.rglob("*.eval") for sample in read_samples(log)]
    spec = a_spec(
        task_id="RLGk3vGh7Az", dataset={"sample_ids": [1, 2, 3]}, shards={"selection": "none", "ledger": []}
    )
    ended = {"completed_at": "2026-01-02T03:04:59+00:00"}
    merged = a_log(tmp_path / f"{SHARDS.removesuffix('.shards')}.eval", *samples, spec=spec, stats=ended)
    assert trials_of(converted(merged)[0]) == trials_of(parts)
    events, report = converted(tmp_path)
    assert trials_of(events) == trials_of(parts)
    assert report.duplicates == 3
    whole, alone = joined_plan(events), joined_plan(converted(merged)[0])
    for name in ("tasks", "attempts", "order", "agent_models"):
        assert whole.get(name) == alone.get(name)
    assert whole.finished == alone.finished


def test_shards_of_different_runs_stay_apart(tmp_path: Path) -> None:
    a_shard(tmp_path / "a", 0, 1)
    (tmp_path / "a" / SHARDS).rename(tmp_path / "a" / "mine.shards")
    a_shard(tmp_path / "b", 0, 2)
    _, report = converted(tmp_path)
    assert report.runs == ["addition_mine", "addition_RLGk3vGh7Az"]


def test_shards_pool_into_another_run_as_one_shard(tmp_path: Path) -> None:
    a_shard(tmp_path, 0, 1, 2)
    a_shard(tmp_path, 1, 3)
    events, _ = converted(tmp_path, run_id="pool")
    assert {trial["shard"] for trial in trials_of(events)} == {"addition_RLGk3vGh7Az"}
    assert joined_plan(events).get("tasks") == ["1", "2", "3"]
    assert end_of(events) == "success"
