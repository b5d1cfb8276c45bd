"""What the hook of inspect_ai publishes: the events that `convert` makes of the same eval's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.hooks.background import Evals
from streamer.schemas.base import canonical_json
from tests.sources.builders import converted
from tests.sources.inspect import A_PLAN, a_log, a_spec, a_summary, the_log, unpack_logs


def begun(**spec: Any) -> tuple[Evals, list[dict[str, Any]]]:
    """An eval that has begun, and the events published from then on."""
    evals = Evals()
    evals.started("e", a_spec(**spec), A_PLAN, lambda event: None)
    return evals, []


def test_an_eval_gives_the_events_of_its_log(tmp_path: Path) -> None:
    logs = unpack_logs(tmp_path)
    record = json.loads(the_log(logs / "json").read_text())
    evals, published = Evals(), []
    evals.started("e", record["eval"], record["plan"], published.append)
    for sample in record["samples"]:
        beginning = {name: sample[name] for name in ("id", "epoch", "started_at")}
        evals.sample_started("e", beginning, published.append)
        evals.sample_ended("e", sample, published.append)
    for _ in range(2):  # on_task_end, then on_run_end
        evals.ended("e", record["status"], record["stats"], "no file", published.append)
    starts = [event for event in published if event["type"] == "trial_started"]
    others = [event for event in published if event["type"] != "trial_started"]
    assert len(starts) == 18
    expected, _ = converted(logs / "finished")
    assert sorted(others, key=canonical_json) == sorted(expected, key=canonical_json)


def test_evals_beside_one_another_keep_their_runs() -> None:
    evals, published = begun()
    evals.started("e2", a_spec(task_id="T2", model="m2"), A_PLAN, lambda event: None)
    evals.sample_ended("e2", a_summary(), published.append)
    evals.sample_ended("e", a_summary(), published.append)
    assert [(trial["run_id"], trial["model"]) for trial in published] == [
        ("addition_T2", "m2"),
        ("addition_T1", "mockllm/model"),
    ]


def test_an_eval_that_began_before_the_hook_was_on_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    evals, published = begun()
    evals.sample_started("other", {"id": 1}, published.append)
    evals.sample_ended("other", a_summary(), published.append)
    evals.ended("other", "success", {}, "no file", published.append)
    evals.started("nameless", {"task": ""}, {}, published.append)
    evals.sample_ended("nameless", a_summary(), published.append)
    assert published == []
    assert caplog.messages == ["inspect: an eval without the name of its task is not published"]


def test_what_is_left_out_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    evals, published = begun()
    for number in range(3):
        scores = {"words": {"value": "lovely"}}
        evals.sample_ended("e", a_summary(id=number, total_time=-1, scores=scores), published.append)
    assert len(published) == 3
    assert not any("duration_seconds" in event for event in published)
    first, second = caplog.messages
    assert first == (
        "inspect: run addition_T1: trials with scores that are left out: "
        "the score 'words' is 'lovely', which is not a number"
    )
    assert second.startswith("inspect: run addition_T1: duration_seconds -1")


def test_a_sample_without_an_id_is_no_event_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    evals, published = begun()
    evals.sample_ended("e", a_summary(id=""), published.append)
    assert published == []
    assert "task_id" in caplog.text


def test_results_that_only_the_log_has_are_published_at_the_end(tmp_path: Path) -> None:
    evals, published = begun()
    evals.sample_ended("e", a_summary(), lambda event: None)
    log = a_log(tmp_path / "x.eval", a_summary(), a_summary(id=2, uuid="u2"))
    evals.ended("e", "error", {"completed_at": "2026-01-02T03:04:09+00:00"}, str(log), published.append)
    assert [(event["type"], event.get("task_id")) for event in published] == [
        ("trial_result", "2"),
        ("run_finished", None),
    ]


def test_an_eval_that_nothing_scored_says_so_at_its_end() -> None:
    """R31, as in its log."""
    evals, published = begun()
    evals.sample_ended("e", a_summary(scores={}), published.append)
    evals.ended("e", "success", {}, "no file", published.append)
    assert [event["type"] for event in published] == ["trial_result", "run_started", "run_finished"]
    assert published[1]["verdicts"] is False


def test_limits_that_changed_while_the_eval_ran_are_in_the_plan_at_its_end(tmp_path: Path) -> None:
    """R36; the hook is called with the specification from the eval's start."""
    evals, published = begun()
    changes = [{"changes": [{"config": "eval", "name": "time_limit", "value": 1200}]}]
    log = a_log(tmp_path / "x.eval", a_summary(), config_updates=changes)
    evals.ended("e", "success", {}, str(log), published.append)
    assert [event["type"] for event in published] == ["trial_result", "run_started", "run_finished"]
    assert published[1] == converted(log)[0][0]


def test_values_that_no_event_can_hold_stop_neither_the_other_samples_nor_the_end(tmp_path: Path) -> None:
    evals, published = begun()
    odd = [
        {"error": {"message": "half a character: \ud800"}},
        {"model_usage": {"mockllm/model": {"input_tokens": 10**30}}},
        {"epoch": [1]},
        {},
    ]
    log = a_log(tmp_path / "x.eval", *(a_summary(id=number, **fields) for number, fields in enumerate(odd)))
    evals.ended("e", "success", {}, str(log), published.append)
    assert [event.get("task_id") for event in published] == ["0", "1", "3", None]
    assert published[0]["message"] == "half a character: \ufffd\ufffd\ufffd"


def test_a_log_that_cannot_be_read_is_said_and_the_end_is_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evals, published = begun()
    (tmp_path / "x.eval").write_bytes(b"PK\x03\x04 and no more")
    evals.ended("e", "success", {}, f"file://{tmp_path / 'x.eval'}", published.append)
    assert [event["type"] for event in published] == ["run_finished"]
    assert "not a valid zip archive" in caplog.text


def test_a_retry_takes_the_place_of_the_try_before_it(caplog: pytest.LogCaptureFixture) -> None:
    """As `inspect eval-set` retries: one call, one task, and no hook for the end of the first try (R34)."""
    evals, published = begun(run_id="R1")
    evals.started("again", a_spec(run_id="R1"), A_PLAN, lambda event: None)
    evals.ended(
        "again", "success", {"completed_at": "2026-01-02T03:04:09+00:00"}, "no file", published.append
    )
    evals.stopped("R1", published.append)
    assert [(event["type"], event["status"]) for event in published] == [("run_finished", "success")]
    assert not evals.are_running
    assert caplog.messages == []


def test_the_evals_of_a_call_that_was_stopped_are_over(caplog: pytest.LogCaptureFixture) -> None:
    evals, published = begun(run_id="R1")
    evals.started("other", a_spec(task_id="T2", run_id="R2"), A_PLAN, lambda event: None)
    for _ in range(2):
        evals.stopped("R1", published.append)
    [end] = published
    assert (end["type"], end["run_id"], end["status"]) == ("run_finished", "addition_T1", "cancelled")
    assert end["revision"] > 0
    assert caplog.messages == []
