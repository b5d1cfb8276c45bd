"""Whatever lies on disk: what can be read is sent, what cannot is named, and nothing is raised."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from streamer.sources.base import ConvertOptions, ConvertReport
from streamer.sources.convert import convert
from tests.sources.builders import a_result, a_run, a_trial_file, converted, trials_of, write_json
from tests.support.examples import examples

NOT_TRIALS = {
    "cut off": '{"task_id": "bad", "is_resolved": tr',
    "empty": "",
    "a list": "[1, 2]",
    "a number": "12",
    "null": "null",
    "no task": "{}",
    "a task that is a number": '{"task_id": 5, "trial_name": "5.1-of-1.run1"}',
    "an empty task": '{"task_id": "", "trial_name": "x"}',
    "a task with a control character": '{"task_id": "a\\u0000b", "trial_name": "x"}',
    "a task that is half a surrogate pair": '{"task_id": "\\ud800", "trial_name": "x"}',
    "a task too long": json.dumps({"task_id": "x" * 600}),
    "nested too deeply": "[" * 200_000,
    "an integer of 5000 digits": '{"task_id": "bad", "total_input_tokens": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("name", NOT_TRIALS)
def test_a_file_that_holds_no_trial_is_named_and_the_others_go_on(tmp_path: Path, name: str) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    bad = write_json(run / "bad" / "bad.1-of-1.run1" / "results.json", NOT_TRIALS[name])
    events, report = converted(run)
    assert [event["task_id"] for event in trials_of(events)] == ["oom"]
    ((path, reason),) = report.unreadable
    assert path == bad
    assert reason


@pytest.mark.parametrize(
    ("field", "value", "sent_as"),
    [
        ("total_input_tokens", "12", "input_tokens"),
        ("total_input_tokens", -1, "input_tokens"),
        ("total_input_tokens", True, "input_tokens"),
        ("total_input_tokens", float("nan"), "input_tokens"),
        ("total_output_tokens", 2**60, "output_tokens"),
        ("total_output_tokens", 2**80, "output_tokens"),
        ("is_resolved", "yes", "resolved"),
        ("failure_mode", ["unset"], "failure_mode"),
        ("failure_mode", "\ud800", "failure_mode"),
        ("trial_started_at", "2025-09-24T10:00:00", "started_at"),
        ("trial_ended_at", "yesterday", "finished_at"),
        ("total_cost", float("inf"), "cost_usd"),
        ("id", {"uuid": 1}, "trial_id"),
    ],
)
def test_a_value_that_does_not_fit_is_left_out_and_named(
    tmp_path: Path, field: str, value: Any, sent_as: str
) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    whole = trials_of(converted(run)[0])[0]
    file = a_trial_file(run, a_result(**{field: value}))
    events, report = converted(run)
    (trial,) = trials_of(events)
    whole.pop(sent_as, None)
    assert {**trial, "revision": 0} == {**whole, "revision": 0}
    ((path, name, reason),) = report.left_out
    assert (path, name) == (file, sent_as)
    assert reason


def test_a_broken_run_file_is_named(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", '{"results": {}}'), ("c", '{"results": [3], "n_resolved": 0}')):
        run = a_run(tmp_path / name, [a_result(run=name)], metadata={})
        write_json(run / "results.json", text)
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == 3
    assert [path.parent.name for path, _ in report.unreadable] == ["a", "b", "c"]
    assert "results[0]" in report.unreadable[2][1]


def test_a_folder_with_nothing_but_a_broken_run_file_says_so(tmp_path: Path) -> None:
    write_json(tmp_path / "x" / "results.json", "{")
    write_json(tmp_path / "y_results.json", "{")
    events, report = converted(tmp_path)
    assert not events
    assert {path.name for path, _ in report.unreadable} == {"results.json", "y_results.json"}
    assert all("not valid JSON" in reason for _, reason in report.unreadable)


def test_broken_metadata_is_named_and_costs_only_what_it_would_have_told(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [], lock={"agent": {"name": "nop"}})
    write_json(run / "run_metadata.json", "{")
    events, report = converted(run)
    assert trials_of(events)[0]["agent"] == "nop"
    assert [path.name for path, _ in report.unreadable] == ["run_metadata.json"]


def test_results_of_something_else_are_no_run(tmp_path: Path) -> None:
    write_json(tmp_path / "lint_results.json", {"results": [{"file": "a.py"}]})
    write_json(tmp_path / "lint" / "results.json", [1])
    events, report = converted(tmp_path)
    assert not events
    assert "fc-eval or terminal-bench or scylla" in report.unreadable[0][1]


def test_a_path_that_does_not_exist_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, report = converted(tmp_path / "gone", run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(tmp_path / "gone", "cannot be read: No such file or directory")]


def test_an_unknown_harness_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed are auto, inspect, fc-eval, terminal-bench, scylla"):
        convert([tmp_path], ConvertOptions(harness="helm"), ConvertReport())


def test_a_directory_name_that_is_no_text_still_names_the_run(tmp_path: Path) -> None:
    run = a_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff\n")), [a_result()], [])
    assert trials_of(converted(run)[0])[0]["run_id"] == "r��"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TRIAL = st.dictionaries(st.sampled_from(sorted(a_result())), JSON, max_size=8)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trial=TRIAL | JSON, run_file=st.lists(TRIAL | JSON, max_size=3), lock=JSON, metadata=JSON)
def test_no_json_at_all_makes_it_raise_or_send_something_invalid(
    tmp_path: Path, trial: Any, run_file: list[Any], lock: Any, metadata: Any
) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    write_json(run / "x" / "x.1-of-1.run1" / "results.json", trial)
    write_json(run / "results.json", {"results": run_file, "n_resolved": 0})
    write_json(run / "tb.lock", {"agent": lock, "dataset": lock, "run_config": lock})
    write_json(run / "run_metadata.json", {"task_ids": metadata, "end_time": metadata, "n_attempts": lock})
    for run_id in (None, "pool"):
        events, _ = converted(run, run_id=run_id)
        assert "oom" in {event["task_id"] for event in trials_of(events)}
