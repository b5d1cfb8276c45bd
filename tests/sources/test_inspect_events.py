"""Records of inspect_ai as events: fields that logs leave out, and odd ones."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.sources.inspect import (
    MAX_QUEUE,
    agent_of,
    finished_event,
    planned_metrics,
    run_id_of,
    start_event,
    started_event,
    trial_event,
)
from tests.sources.inspect import A_PLAN, a_spec, a_summary

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


def test_a_cost_of_zero_beside_tokens_is_unknown() -> None:
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6, "total_cost": 0.0}
    assert "cost_usd" not in event_of(model_usage={"mockllm/model": usage})


@pytest.mark.parametrize(
    ("error", "mode"),
    [
        ("RuntimeError('no such tool')", "RuntimeError"),
        ("CancelledError('Cancelled via cancel scope 7f9f')", "CancelledError"),
        ("Sandbox(docker) is gone", "error"),
        ("Error code: 429 - too many requests", "error"),
        ({"message": "KeyError('x')"}, "KeyError"),
        ({}, "error"),
        (None, "unset"),
    ],
)
def test_the_class_of_an_error_is_the_failure_mode(error: object, mode: str) -> None:
    assert event_of(error=error)["failure_mode"] == mode


def test_a_long_message_is_cut() -> None:
    assert len(event_of(error="x" * 10_000)["message"]) == 4096


def test_the_verdict_is_that_of_the_first_scorer_that_has_one() -> None:
    scores = {"judge": {"value": 0.9}, "first": {"value": "I"}, "second": {"value": "C"}}
    assert event_of(scores=scores)["resolved"] is False
    assert "resolved" not in event_of(scores={"judge": {"value": 1.0}, "half": {"value": "P"}})
    assert "resolved" not in event_of(scores={"parts": {"value": {"a": "C"}}})


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
        "tasks": ["1", "2"],
        "attempts": 2,
        "order": ["1", "2", "1", "2"],
        "concurrency": 4,
        "agent_models": ["generate:mockllm/model"],
        "benchmark": "addition",
        "benchmark_version": "2",
        "metrics": {"match": {}},
    }


def test_a_queue_too_long_for_an_event_is_not_told() -> None:
    spec = a_spec(dataset={"sample_ids": [1, 2], "shuffled": True}, config={"epochs": MAX_QUEUE})
    assert "order" not in started_event(spec, A_PLAN)


def test_a_plan_without_ids_or_model_leaves_them_out() -> None:
    event = started_event({"task": "t", "dataset": {"samples": 9}}, {})
    assert event == {
        "type": "run_started",
        "harness": "inspect",
        "revision": 0,
        "attempts": 1,
        "benchmark": "t",
    }


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


@pytest.mark.parametrize("status", [None, "", "started"])
def test_an_eval_that_goes_on_has_no_end(status: object) -> None:
    assert finished_event(status, {"completed_at": "2026-01-02T03:04:05+00:00"}) is None


def test_the_end_says_how_it_ended() -> None:
    assert finished_event("cancelled", {"completed_at": ""}) == {
        "type": "run_finished",
        "revision": 0,
        "status": "cancelled",
    }


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
