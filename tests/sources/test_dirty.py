"""Whatever lies on disk: what can be read is sent, what cannot is named, and nothing is raised."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from streamer.schemas.limits import MAX_NAME_CHARACTERS
from streamer.sources.base import ConvertOptions
from streamer.sources.convert import ConvertReport, convert
from streamer.sources.fit import fit_event
from streamer.sources.names import with_short_names
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


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    (run / "oom" / "oom.1-of-1.run1" / "results.json").write_bytes(b"\xff\x00{\x80")
    _, report = converted(run)
    assert "not valid JSON" in report.unreadable[0][1]


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
    assert "no run of fc-eval or terminal-bench or scylla" in report.unreadable[0][1]


def test_a_path_that_does_not_exist_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, report = converted(tmp_path / "gone", run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(tmp_path / "gone", "cannot be read: No such file or directory")]


def test_an_unknown_harness_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed are auto, fc-eval, terminal-bench, scylla"):
        convert([tmp_path], ConvertOptions(harness="helm"), ConvertReport())


def test_a_directory_name_that_is_no_text_still_names_the_run(tmp_path: Path) -> None:
    run = a_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff\n")), [a_result()], [])
    assert trials_of(converted(run)[0])[0]["run_id"] == "r��"


def test_a_pipe_where_a_file_belongs_is_not_waited_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [], metadata={})
    (run / "results.json").unlink()
    os.mkfifo(run / "results.json")
    (run / "oom" / "oom.2-of-2.run1").mkdir()
    os.mkfifo(run / "oom" / "oom.2-of-2.run1" / "results.json")
    events, report = converted(run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(run / "results.json", "not a regular file")]


@pytest.mark.skipif(os.geteuid() == 0, reason="SKIPPED LOUDLY: root reads what nobody may read")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], [])
    (run / "oom" / "oom.1-of-1.run1" / "results.json").chmod(0)
    (run / "b").chmod(0)
    try:
        _, report = converted(run)
    finally:
        (run / "b").chmod(0o755)
    assert {"Permission denied" in reason for _, reason in report.unreadable} == {True}


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


def test_an_event_that_would_be_too_large_loses_its_largest_field_and_counts() -> None:
    """A record of more than 1 MiB would be rejected, and the trial with it."""
    event = {
        "type": "trial_result",
        "run_id": "r",
        "task_id": "t",
        "claimed": {"c": "x" * 700_000},
        "benchmarks": {"b": "y" * 800_000},
        "output_tokens": 7,
    }
    fitted, misfits = fit_event(event)
    assert fitted == {name: value for name, value in event.items() if name != "benchmarks"}
    assert list(misfits) == ["benchmarks"]
    assert "800,008 bytes" in misfits["benchmarks"]


LONG = "the same beginning of a name " * 12


def test_long_names_are_cut_so_that_two_never_become_one(tmp_path: Path) -> None:
    results = [
        a_result(task_id=f"t{n}", trial_name=f"t{n}.1-of-1.run1", failure_mode=LONG + str(n)) for n in (1, 2)
    ]
    events, report = converted(a_run(tmp_path / "run1", results))
    first, second = (trial["failure_mode"] for trial in trials_of(events))
    assert len(first) == len(second) == MAX_NAME_CHARACTERS
    assert first != second
    assert first.startswith(LONG[:115] + "~")
    assert [(name, "longer than 128" in reason) for _, name, reason in report.cut] == [
        ("failure_mode", True)
    ] * 2
    assert (report.left_out, report.unreadable) == ([], [])


def test_a_long_name_is_cut_alike_in_trials_and_in_their_plan(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    events, _ = converted(run, agent=LONG, model=f"openai/{LONG}")
    [trial] = trials_of(events)
    [plan] = [event for event in events if event["type"] == "run_started"]
    assert plan["agent_models"] == [f"{trial['agent']}:{trial['model']}"]
    assert len(trial["agent"]) == len(trial["model"]) == MAX_NAME_CHARACTERS


def test_a_name_of_128_characters_is_sent_as_it_is(tmp_path: Path) -> None:
    events, report = converted(a_run(tmp_path / "run1", [a_result(failure_mode="é" * 128)]))
    assert [trial["failure_mode"] for trial in trials_of(events)] == ["é" * 128]
    assert report.cut == []


@given(st.text(min_size=129, max_size=300), st.text(min_size=129, max_size=300))
def test_different_long_names_stay_different(one: str, other: str) -> None:
    cut = [with_short_names({"agent": name})[0]["agent"] for name in (one, other)]
    assert (cut[0] == cut[1]) == (one == other)
    assert {len(name) for name in cut} == {MAX_NAME_CHARACTERS}
