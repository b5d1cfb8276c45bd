"""The names of SWE-bench's reports, which hold the model and the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.sources import swe_bench
from streamer.sources.base import ConvertOptions, Unreadable
from streamer.sources.files import read_optional
from streamer.sources.swe_bench import place_of
from tests.sources.builders import converted, plan_of, trials_of, write_json

REPORT = {
    "total_instances": 4,
    "submitted_instances": 4,
    "resolved_ids": ["a"],
    "unresolved_ids": ["b"],
    "empty_patch_ids": ["c"],
    "error_ids": ["d"],
    "completed_ids": ["a", "b"],
}


def endings(folder: Path, **options: Any) -> dict[str, tuple[bool | None, str]]:
    """Task to verdict and failure mode of each trial."""
    trials = trials_of(converted(folder, **options)[0])
    return {t["task_id"]: (t.get("resolved"), t["failure_mode"]) for t in trials}


@pytest.mark.parametrize(
    ("name", "logged", "model", "run"),
    [
        ("gpt-4.1.test.json", None, "gpt-4.1", "test"),
        ("gpt-4.1.v1.2.json", "v1.2/gpt-4.1", "gpt-4.1", "v1.2"),
        ("model.run.json", None, "model", "run"),
        ("OpenHands__m-4.5.eval_output.swebench.json", None, "OpenHands__m-4.5", "eval_output.swebench"),
    ],
)
def test_model_and_run_are_told_apart_by_the_logs_else_at_the_last_dot(
    tmp_path: Path, name: str, logged: str | None, model: str, run: str
) -> None:
    file = write_json(tmp_path / name, {"total_instances": 0})
    if logged:
        (tmp_path / "logs" / "run_evaluation" / logged).mkdir(parents=True)
    place = place_of(file, ConvertOptions())
    assert (place.model, place.run) == (model, run)


def test_a_model_that_the_user_names_tells_where_the_run_begins(tmp_path: Path) -> None:
    write_json(tmp_path / "acme__gpt-4.1.v1.2.json", REPORT)
    events, report = converted(tmp_path)
    assert {event["run_id"] for event in events} == {"2"}
    assert "--model NAME settles it" in "".join(map(str, report.remarks.values()))
    events, report = converted(tmp_path, model="acme/gpt-4.1")
    assert {event["run_id"] for event in events} == {"v1.2"}
    assert not report.remarks


@pytest.mark.parametrize("order", [list, sorted, lambda keys: sorted(keys, reverse=True)])
def test_a_report_is_one_in_any_order_of_its_keys_and_of_any_length(tmp_path: Path, order: Any) -> None:
    ids = [f"a-{number}" for number in range(1000)]
    report = REPORT | {"completed_ids": [*ids, "b"], "resolved_ids": ids, "total_instances": 1003}
    write_json(tmp_path / "acme.run.json", {name: report[name] for name in order(report)})
    assert len(endings(tmp_path)) == 1003
    assert converted(tmp_path)[1].notes == []


@pytest.mark.parametrize(
    ("left_out", "unknown"),
    [("completed_ids", ""), ("unresolved_ids", ""), ("empty_patch_ids", "c"), ("error_ids", "d")],
)
def test_a_list_that_a_report_leaves_out_costs_only_what_no_other_list_says(
    tmp_path: Path, left_out: str, unknown: str
) -> None:
    whole = {"a": (True, "unset"), "b": (False, "unset"), "c": (False, "empty_patch"), "d": (None, "error")}
    write_json(tmp_path / "acme.run.json", {name: ids for name, ids in REPORT.items() if name != left_out})
    assert endings(tmp_path) == {task: ending for task, ending in whole.items() if task != unknown}


@pytest.mark.parametrize("kind", [int, float, str])
def test_r35_counts_that_the_lists_do_not_reach_are_said_and_the_plan_is_not_complete(
    tmp_path: Path, kind: Any
) -> None:
    counts = {name: kind(n) for name, n in (("total", 9), ("resolved", 5), ("error", 2))}
    counted = {f"{name}_instances": count for name, count in counts.items()}
    write_json(tmp_path / "acme.run.json", REPORT | counted)
    events, report = converted(tmp_path)
    assert report.notes == [
        "run run: 9 instances in all announced, 4 found",
        "run run: 5 resolved instances announced, 1 found",
        "run run: 2 instances with an error announced, 1 found",
    ]
    assert plan_of(events)["plan_complete"] is False


def test_r35_a_report_inside_another_object_is_said_and_ends_no_run(tmp_path: Path) -> None:
    write_json(tmp_path / "lite__dev__night.json", {"report": REPORT})
    events, report = converted(tmp_path)
    [(_, reason)] = report.unreadable
    assert reason == 'no report of SWE-bench: "total_instances" is inside another object'
    assert [event["type"] for event in events] == ["run_started"]


def test_the_reports_of_other_runs_are_not_read_again_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("one", "two", "three"):
        write_json(tmp_path / f"acme.{run}.json", REPORT)
    read: list[str] = []

    def reading(file: Path, problems: list[Unreadable]) -> dict[str, Any]:
        read.append(file.name)
        return read_optional(file, problems)

    monkeypatch.setattr(swe_bench, "read_optional", reading)
    assert len(trials_of(converted(tmp_path)[0])) == 12
    assert max(map(read.count, ("acme.one.json", "acme.two.json"))) == 2  # for the plan and the trials


def test_a_broken_report_leaves_other_runs_whole_and_is_said_once(tmp_path: Path) -> None:
    write_json(tmp_path / "acme.run.json", REPORT)
    write_json(tmp_path / "acme.other.json", '{"total_instances": 4, ')
    events, report = converted(tmp_path)
    assert [path.name for path, _ in report.unreadable] == ["acme.other.json"]
    plans = {event["run_id"]: event["plan_complete"] for event in events if event["type"] == "run_started"}
    assert plans == {"run": True, "other": False}


@pytest.mark.parametrize(("counted", "count"), [("pending", 2), ("completed", 3)])
def test_r35_a_count_of_sb_cli_that_no_list_reaches_is_said_and_the_run_is_not_complete(
    tmp_path: Path, counted: str, count: int
) -> None:
    report = REPORT | {"total_instances": 500, "failed_ids": [], f"{counted}_instances": count}
    write_json(tmp_path / "lite__dev__night.json", report)
    events, said = converted(tmp_path)
    found = {"pending": 0, "completed": 2}[counted]
    assert said.notes[1:] == [f"run night: {count} {counted} instances announced, {found} found"]
    assert (plan_of(events)["plan_complete"], events[-1]["status"]) == (False, "interrupted")


def test_r35_a_verdict_that_differs_from_the_reports_is_said_and_counts(tmp_path: Path) -> None:
    home = tmp_path / "logs" / "run_evaluation" / "run" / "acme"
    for task, resolved in (("a", False), ("b", False), ("c", True), ("d", True)):
        write_json(home / task / "report.json", {task: {"resolved": resolved}})
    write_json(tmp_path / "acme.run.json", REPORT)
    events, said = converted(tmp_path)
    assert {t["task_id"]: t["resolved"] for t in trials_of(events)} == dict(
        zip("abcd", (0, 0, 0, 1), strict=True)
    )
    assert said.notes == [
        "run run: 2 instances with another verdict in report.json than in the run's report, such as 'a'; "
        "report.json counts"
    ]


def test_r34_a_report_in_a_directory_of_its_own_and_its_logs_are_one_run(tmp_path: Path) -> None:
    task = {"a": {"resolved": True, "tests_status": {"FAIL_TO_PASS": {"success": ["x"], "failure": []}}}}
    logs = write_json(tmp_path / "logs/run_evaluation/run/acme/a/report.json", task).parents[2]
    report = write_json(tmp_path / "reports" / "acme.run.json", REPORT)
    write_json(tmp_path / "old" / "acme.run.json", REPORT | {"error_ids": []}, mtime_ns=1)
    write_json(tmp_path / "acme.other.json", REPORT)
    for given in (report, logs, tmp_path):
        events, said = converted(given)
        trials = [trial for trial in trials_of(events) if trial["run_id"] == "run"]
        assert {trial["task_id"]: trial.get("metrics") for trial in trials} == {
            "a": {"fail_to_pass": 1.0},
            **dict.fromkeys("bcd"),
        }
        assert (len(trials), said.notes) == (4, [])
    assert said.runs == ["run", "other"]
    write_json(tmp_path / "acme.run.json", REPORT)
    assert len(trials_of(converted(logs)[0])) == 4


def test_r35_an_instance_of_an_earlier_batch_that_was_not_graded_is_said(tmp_path: Path) -> None:
    home = tmp_path / "logs" / "run_evaluation" / "run" / "acme"
    write_json(home / "x" / "report.json", {"x": {"resolved": True}})
    (home / "y").mkdir()
    write_json(tmp_path / "acme.run.json", REPORT)  # of the second batch
    events, said = converted(tmp_path)
    assert said.notes == [
        "run run: 1 instance with logs and without a result, in them or in the run's report, such as 'y'"
    ]
    assert [event["task_id"] for event in events if event["type"] == "trial_started"] == ["y"]
    assert (plan_of(events)["plan_complete"], events[-1]["status"]) == (False, "interrupted")


@pytest.mark.parametrize("given", [".", "acme.run.json", "logs"])
def test_a_report_on_predictions_of_several_models_has_each_instance_once(tmp_path: Path, given: str) -> None:
    home = tmp_path / "logs" / "run_evaluation" / "run"
    write_json(home / "acme" / "a" / "report.json", {"a": {"resolved": True}})
    write_json(home / "other" / "b" / "report.json", {"b": {"resolved": False}})
    (home / "other" / "d").mkdir()
    write_json(tmp_path / "acme.run.json", REPORT)
    events, _ = converted(tmp_path / given)
    assert sorted((trial["model"], trial["task_id"]) for trial in trials_of(events)) == [
        ("acme", "a"),
        ("acme", "c"),  # an empty patch has no log
        ("other", "b"),
        ("other", "d"),
    ]
    assert ("tasks" not in plan_of(events), events[-1].get("status")) == (True, "completed")
    (home / "other" / "a").mkdir()  # the other model's own evaluation of the same instances
    assert len(trials_of(converted(tmp_path / "acme.run.json")[0])) == 4
    assert converted(tmp_path)[0][-1]["type"] != "run_finished"


def test_what_was_submitted_and_has_no_result_is_planned_and_missing(tmp_path: Path) -> None:
    report = REPORT | {"total_instances": 6, "submitted_ids": [*"abcdef"]}
    write_json(tmp_path / "acme.run.json", report)
    events, said = converted(tmp_path)
    assert (sorted(endings(tmp_path)), plan_of(events)["tasks"]) == ([*"abcd"], [*"abcdef"])
    assert said.notes == ["run run: 6 instances with a result announced, 4 found"]
    write_json(tmp_path / "acme.run.json", report | {"total_instances": 4})
    assert plan_of(converted(tmp_path)[0])["tasks"] == [*"abcd"]  # predictions of another dataset


@pytest.mark.parametrize("incomplete", [[], ["d"]])
def test_r35_errors_that_openhands_only_counts_are_the_submitted_instances_without_an_end(
    tmp_path: Path, incomplete: list[str]
) -> None:
    report = {name: ids for name, ids in REPORT.items() if name != "error_ids"}
    report |= {"submitted_ids": [*"abcd"], "error_instances": 1, "incomplete_ids": incomplete}
    write_json(tmp_path / "acme.run.json", report)
    assert endings(tmp_path)["d"] == (None, "error")
    events, said = converted(tmp_path)
    assert (said.notes, plan_of(events)["plan_complete"]) == ([], True)
    write_json(tmp_path / "acme.run.json", report | {"error_instances": 2})
    assert "d" not in endings(tmp_path)
    assert "run run: 2 instances with an error announced, 0 found" in converted(tmp_path)[1].notes


def test_a_list_that_is_null_is_left_out_and_one_of_another_kind_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "acme.run.json", REPORT | {"completed_ids": None})
    assert len(endings(tmp_path)) == 4
    assert not converted(tmp_path)[1].unreadable
    write_json(tmp_path / "acme.run.json", REPORT | {"unresolved_ids": None, "unresolved_instances": 1})
    assert endings(tmp_path)["b"] == (False, "unset")
    assert converted(tmp_path)[1].notes == []
    write_json(tmp_path / "acme.run.json", REPORT | {"completed_ids": {"a": 1}})
    assert "`completed_ids` has" in converted(tmp_path)[1].unreadable[0].reason


@pytest.mark.parametrize("other", ["incomplete_ids", "pending_ids"])
def test_an_instance_with_a_verdict_and_without_a_result_is_named(tmp_path: Path, other: str) -> None:
    write_json(tmp_path / "acme.run.json", REPORT | {other: ["a", "c", "d"]})
    (problem,) = converted(tmp_path)[1].unreadable
    assert problem.reason == f"the instance 'a' is in resolved_ids, {other}, but only one of them can be"


def test_a_graded_instance_of_programbench_with_an_error_is_unresolved(tmp_path: Path) -> None:
    report = REPORT | {"error_ids": ["b", "d"], "almost_resolved_ids": [], "incomplete_ids": ["d"]}
    write_json(tmp_path / "acme.run.json", report)
    assert endings(tmp_path)["b"] == (False, "unset")
    assert not converted(tmp_path)[1].unreadable


def test_numbers_as_ids_are_their_texts(tmp_path: Path) -> None:
    report = {"total_instances": 2, "resolved_ids": [7], "unresolved_ids": [8.0]}
    write_json(tmp_path / "acme.run.json", report)
    assert endings(tmp_path) == {"7": (True, "unset"), "8": (False, "unset")}


@pytest.mark.parametrize("name", ["output.report.json", "report.json"])
def test_r34_reports_of_openhands_are_runs_of_their_directories(tmp_path: Path, name: str) -> None:
    for agent, model in (("one", "acme/m1"), ("two", "acme/m2")):
        home = tmp_path / "swe-bench-test" / agent
        write_json(home / name, {"model_name_or_path": model} | REPORT)
        events, _ = converted(home)
        assert {event["run_id"] for event in events} == {f"swe-bench-test/{agent}"}
        assert {trial["model"] for trial in trials_of(events)} == {model}
    assert len(converted(tmp_path)[1].runs) == 2


@pytest.mark.parametrize("llm", [{"model": "proxy/acme/m"}, '{"model":"proxy/acme/m","timeout":300}'])
def test_r34_reports_of_openhands_lie_deeper_with_each_slash_in_the_model(tmp_path: Path, llm: Any) -> None:
    for dataset in ("lite", "verified"):
        home = tmp_path / dataset / "proxy" / "acme" / "m_sdk_1_maxiter_100"
        write_json(home / "metadata.json", {"llm": llm})
        write_json(home / "output.report.json", REPORT)
        events, said = converted(home)
        assert said.runs == [f"{dataset}/proxy/acme/m_sdk_1_maxiter_100"]
        assert {trial["model"] for trial in trials_of(events)} == {"proxy/acme/m"}


def test_r34_early_reports_of_openhands_on_two_datasets_are_two_runs(tmp_path: Path) -> None:
    for dataset in ("lite", "verified"):
        home = tmp_path / dataset / "CodeActAgent" / "m_maxiter_100"
        write_json(home / "report.json", REPORT)
        write_json(home / "metadata.json", {"agent_class": "CodeActAgent", "llm_config": {"model": "m"}})
        assert converted(home)[1].runs == [f"{dataset}/CodeActAgent/m_maxiter_100"]
    assert len(converted(tmp_path)[1].runs) == 2


def test_r34_copies_of_a_report_of_openhands_never_become_one_run(tmp_path: Path) -> None:
    names = ("output.report", "output.report (1)", "output.swebench_eval")
    for agent in ("one", "two"):
        for name in names:
            write_json(tmp_path / "swe" / agent / f"{name}.json", REPORT)
    expected = {
        f"swe/{agent}{end}" for agent in ("one", "two") for end in ("", *(f"/{n}" for n in names[1:]))
    }
    assert set(converted(tmp_path)[1].runs) == expected


@pytest.mark.parametrize("name", ["output.report", "OpenHands.eval", "OpenHands.output.swebench"])
def test_r34_a_report_of_openhands_and_the_logs_beside_it_are_one_run(tmp_path: Path, name: str) -> None:
    home = tmp_path / "swe-test" / "m_maxiter_100"
    write_json(home / "metadata.json", {"llm": {"model": "acme/m"}})
    report = write_json(home / f"{name}.json", REPORT)
    assert converted(report)[1].runs == ["swe-test/m_maxiter_100"]
    evaluation = "eval" if name == "output.report" else name.removeprefix("OpenHands.")
    for task, resolved in {"a": True, "b": False}.items():
        logs = home / "logs" / "run_evaluation" / evaluation
        write_json(logs / "OpenHands" / task / "report.json", {task: {"resolved": resolved}})
    for given in (tmp_path, home, report, logs):
        events, said = converted(given)
        assert (said.runs, len(trials_of(events))) == (["swe-test/m_maxiter_100"], 4)
        assert {trial["model"] for trial in trials_of(events)} == {"acme/m"}
        assert (plan_of(events)["tasks"], events[-1]["status"]) == ([*"abcd"], "completed")
    write_json(logs.with_name("again") / "OpenHands" / "a" / "report.json", {"a": {"resolved": False}})
    runs = {trial["run_id"] for trial in trials_of(converted(logs.parent)[0])}
    assert runs == {f"swe-test/m_maxiter_100/{again}" for again in (evaluation, "again")}


@pytest.mark.parametrize("key", ["llm", "llm_config"])
def test_openhands_metadata_names_the_model_where_the_report_does_not(tmp_path: Path, key: str) -> None:
    file = write_json(tmp_path / "d" / "m" / "output.report.json", REPORT)
    assert {trial["model"] for trial in trials_of(converted(file)[0])} == {"unknown"}
    write_json(file.with_name("metadata.json"), {key: {"model": "litellm_proxy/acme/m"}})
    for named in ({}, {"model_name_or_path": "openhands"}):
        write_json(file, named | REPORT)
        assert {trial["model"] for trial in trials_of(converted(file)[0])} == {"litellm_proxy/acme/m"}
    assert {trial["model"] for trial in trials_of(converted(file, model="m")[0])} == {"m"}


def test_r36_openhands_metadata_says_how_the_run_was_made(tmp_path: Path) -> None:
    made = {
        "dataset": "org/set",
        "dataset_split": "test",
        "max_iterations": 100,
        "openhands_sdk_version": "1.2",
    }
    write_json(tmp_path / "d" / "m" / "metadata.json", {"llm": {"model": "m"}} | made)
    plan = plan_of(converted(write_json(tmp_path / "d" / "m" / "output.report.json", REPORT))[0])
    assert (plan["benchmark"], plan["provenance"]) == (
        "org/set",
        {"dataset": "org/set", "split": "test", "limits": "turns=100", "agent_version": "1.2"},
    )


def test_reports_of_sb_cli_with_one_run_id_for_two_datasets_replace_nothing(tmp_path: Path) -> None:
    hosted = REPORT | {"failed_ids": ["e"], "pending_ids": ["f"], "total_instances": 6}
    for dataset in ("swe-bench_lite__dev", "SWE-bench_Verified__test"):
        write_json(tmp_path / f"{dataset}__my.run__1.json", hosted)
    events, report = converted(tmp_path)
    assert report.runs == ["my.run__1"]
    assert len({(trial["shard"], trial["task_id"]) for trial in trials_of(events)}) == report.trials == 10
    assert not [event for event in events if event["type"] == "run_finished"]  # one is pending


@pytest.mark.parametrize("run", ["acme_run1", "acme.run.1"])
def test_a_report_of_an_early_sb_cli_has_only_the_run_id_in_its_name(tmp_path: Path, run: str) -> None:
    hosted = REPORT | {"failed_ids": ["e"], "pending_ids": [], "total_instances": 500, "failed_instances": 2}
    events, report = converted(write_json(tmp_path / f"{run}.json", hosted))
    assert {event["run_id"] for event in events} == {run}
    said = ("500 instances in all announced, 5 found", "2 failed instances announced, 1 found")
    assert report.notes == [f"run {run}: {why}" for why in said]
    assert (len(trials_of(events)), events[-1].get("status")) == (5, "interrupted")
    del hosted["failed_instances"]
    assert converted(write_json(tmp_path / f"{run}.json", hosted))[0][-1]["status"] == "completed"


def test_r34_reports_of_sb_cli_that_swe_agent_moved_are_runs_of_their_directories(tmp_path: Path) -> None:
    for run in ("default__m1", "default__m2"):
        file = write_json(tmp_path / "me" / run / "results.json", REPORT | {"pending_ids": []})
        assert converted(file)[1].runs == [f"me/{run}"]


@pytest.mark.parametrize(("dataset", "name"), [("/data/me/a.json", "a.json"), ("org/set", "org/set")])
def test_a_dataset_on_this_machine_is_named_without_its_path(tmp_path: Path, dataset: str, name: str) -> None:
    write_json(tmp_path / "acme.run.json", REPORT)
    write_json(tmp_path / "logs" / "run_evaluation" / "run" / "run.json", {"dataset": dataset})
    assert plan_of(converted(tmp_path / "acme.run.json")[0])["benchmark"] == name


def test_other_files_with_dots_in_their_names_are_no_reports(tmp_path: Path) -> None:
    write_json(tmp_path / "a.b.json", {"results": []})
    (tmp_path / "c.d.json").mkdir()
    assert converted(tmp_path)[0] == []
