"""SWE-bench: recorded runs that its own functions graded (see swe_bench/record.py), and others' reports."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.sources import swe_bench
from streamer.sources.base import ConvertOptions, ConvertReport, Unreadable
from streamer.sources.convert import convert_part, discover
from streamer.sources.files import read_optional
from streamer.sources.swe_bench import SweBench, place_of
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.harbor import summaries
from tests.sources.outcomes import a_tree, agree
from tests.sources.swe_bench import MODEL, OTHER, REPORT, unpack_runs

LOGS = "logs/run_evaluation/nightly"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return unpack_runs(tmp_path / "home")


def by_task(events: list[Event], model: str = MODEL) -> dict[str, Event]:
    return {event["task_id"]: event for event in trials_of(events) if event["model"] == model}


def without_paths(events: list[Event]) -> dict[str, Event]:
    """The trials without the paths of artifacts, which are relative to the report or to the logs."""
    return {task: {**event, "artifacts": None} for task, event in by_task(events).items()}


def test_the_counts_are_those_of_the_harness(home: Path) -> None:
    report = json.loads((home / REPORT).read_text())
    events = agree({"unreadable": [], "left_out": [], "trials": 11}, home / REPORT)
    modes = Counter(trial["failure_mode"] for trial in trials_of(events))
    verdicts = Counter(trial.get("resolved") for trial in trials_of(events))
    assert len(plan_of(events)["tasks"]) == report["total_instances"] == 12
    assert report["submitted_instances"] == 11
    assert verdicts[True] == report["resolved_instances"] == 2
    assert verdicts[False] == report["unresolved_instances"] + report["empty_patch_instances"] == 7
    assert verdicts[None] == modes["error"] == report["error_instances"] == 2
    assert modes["empty_patch"] == report["empty_patch_instances"] == 2
    assert modes["infra_failure"] == report["infra_failure_instances"] == 1
    (summary,) = summaries(events).values()
    assert (summary["trials"], summary["resolved"]) == (11, 2)


def test_an_instance_says_how_it_ended_with_logs_and_patch_as_artifacts(home: Path) -> None:
    trials = by_task(converted(home / REPORT)[0])
    half: Event = {"message": "failed tests: tests/test_io.py::test_write"}
    ends: dict[str, Event] = {
        "astropy__astropy-1": {"resolved": True, "failure_mode": "unset", "message": None},
        "django__django-1": half | {"metrics": {"fail_to_pass": 0.5, "pass_to_pass": 1.0}},
        "django__django-3": {"metrics": {"fail_to_pass": 1.0, "pass_to_pass": 0.5}, "resolved": False},
        "sympy__sympy-1": {"failure_mode": "infra_failure", "message": "network_unreachable"},
        "sympy__sympy-2": {"failure_mode": "unset", "message": "tests_timed_out", "metrics": None},
        "requests__requests-1": {"resolved": False, "failure_mode": "empty_patch", "message": None},
        "flask__flask-1": {"resolved": None, "failure_mode": "error"},
    }
    for task, said in ends.items():
        assert {name: trials[task].get(name) for name in said} == said, task
    assert trials["flask__flask-1"]["message"].endswith("error: patch failed: src/app.py:3")
    paths = [artifact["path"] for artifact in trials["django__django-1"]["artifacts"]]
    names = ("patch.diff", "run_instance.log", "test_output.txt")
    assert paths == [f"{LOGS}/{MODEL}/django__django-1/{name}" for name in names]
    assert all((home / path).is_file() for path in paths)


def test_report_and_logs_are_one_run_and_each_trial_is_sent_once(home: Path) -> None:
    """A run has ended once each model with logs has a report; the other one still runs in the recording."""
    events = agree({"runs": ["nightly"], "trials": 11 + 2, "duplicates": 11, "ends": []}, home)
    of_report = without_paths(converted(home / REPORT)[0])
    assert without_paths(events) == without_paths(converted(home / LOGS)[0]) == of_report
    assert by_task(events, OTHER)["django__django-1"]["resolved"] is False
    shutil.rmtree(home / LOGS / OTHER)
    agree({"ends": ["completed"]}, home)


def test_without_logs_the_report_alone_has_the_same_counts(home: Path) -> None:
    with_logs = by_task(converted(home / REPORT)[0])
    shutil.rmtree(home / "logs")
    verdicts = {task: (t.get("resolved"), t["failure_mode"]) for task, t in with_logs.items()}
    alone = agree({"endings": verdicts}, home / REPORT)
    assert by_task(alone)["sympy__sympy-1"]["message"] == "network_unreachable"


def test_a_run_that_goes_on_has_results_and_starts(home: Path) -> None:
    (home / REPORT).unlink()
    events = agree({"trials": 7 + 2, "begun": ["flask__flask-1", "flask__flask-2"], "ends": []}, home / LOGS)
    assert plan_of(events)["benchmark"] == "SWE-bench/SWE-bench_Verified"


def test_the_parts_of_a_run_have_the_events_of_the_whole(home: Path) -> None:
    logs, options = home / LOGS, ConvertOptions()
    ((run,), _, _) = discover([logs], [SweBench()], options)
    changed = logs / MODEL / "django__django-1" / "report.json"
    part = SweBench().part(logs, changed)
    assert part == changed.parent
    [event] = convert_part(run, part, options, ConvertReport())
    assert event == by_task(converted(logs)[0])["django__django-1"]
    assert SweBench().part(logs, logs / "run.json") is None
    assert SweBench().part(home / REPORT, home / REPORT) is None


@pytest.mark.parametrize("content", ["", "{"])
def test_a_broken_report_of_an_instance_is_named_unless_it_is_an_error(home: Path, content: str) -> None:
    """As `make_run_report` counts it. On Modal an instance with an error has an empty report."""
    (home / LOGS / MODEL / "django__django-1" / "report.json").write_text(content)
    [(_, reason)] = converted(home / REPORT)[1].unreadable
    assert reason.startswith("django__django-1/report.json")
    report = json.loads((home / REPORT).read_text())
    report["unresolved_ids"].remove("django__django-1")
    report["error_ids"].append("django__django-1")
    write_json(home / REPORT, report)
    events = agree({"unreadable": []}, home / REPORT)
    assert by_task(events)["django__django-1"]["failure_mode"] == "error"


@pytest.mark.parametrize("content", ["{}", '{"other": {"resolved": true}}', '{"django__django-1": {}}'])
def test_a_report_without_the_result_of_its_instance_is_reported(home: Path, content: str) -> None:
    """Also while the run goes on, when no other file names the instance."""
    file = home / LOGS / MODEL / "django__django-1" / "report.json"
    file.write_text(content)
    (home / REPORT).unlink()
    events, said = converted(home)
    assert "django__django-1" not in by_task(events)
    reason = "django__django-1/report.json: it has no result under `django__django-1`"
    assert said.unreadable == [(file, reason)]


@pytest.mark.parametrize(
    ("content", "complete"),
    [
        ("[]", True),
        ('{"total_instances', True),
        ('{"total_instances": 12, "submitted_instances": 11, "resolved_ids": ["a"', False),
        ('{"total_instances": 1, "resolved_ids": 5}', False),
    ],
)
def test_a_broken_report_of_a_run_loses_no_instance_with_logs(
    home: Path, content: str, complete: bool
) -> None:
    """Where it is known as a report."""
    (home / REPORT).write_text(content)
    assert len(by_task(agree({"complete": [complete]}, home))) == 7


def a_report(*without: str, **fields: Any) -> Event:
    """The report of a run: `fields` replace or add some, `without` leaves some out."""
    lists = {"resolved_ids": ["a"], "unresolved_ids": ["b"], "empty_patch_ids": ["c"], "error_ids": ["d"]}
    report = {"total_instances": 4, "submitted_instances": 4, **lists, "completed_ids": ["a", "b"], **fields}
    return {name: value for name, value in report.items() if name not in without}


def graded(**verdicts: bool) -> Event:
    """The logs of instances of the run `run`."""
    return {f"{RUN}/acme/{task}/report.json": {task: {"resolved": found}} for task, found in verdicts.items()}


def acme(report: Event, **expected: Any) -> tuple[Event, Event]:
    return {ACME: report}, expected


def unreadable(reason: str, file: str = "acme.run.json") -> Event:
    return {"unreadable": [f"{file}: {reason}"], "complete": [False]}


def case(files: Event, **expected: Any) -> tuple[Event, Event]:
    return files, expected


ENDINGS = {"a": (True, "unset"), "b": (False, "unset"), "c": (False, "empty_patch"), "d": (None, "error")}
WITHOUT_C, WITHOUT_D = ({task: ENDINGS[task] for task in tasks} for tasks in ("abd", "abc"))
RUN, ACME, HOSTED = "logs/run_evaluation/run", "acme.run.json", "lite__dev__night.json"
LEFT_OUT = "instead of instance ids; it is left out"
TWICE = "the instance 'a' is in resolved_ids, {}, but only one of them can be"
OPENHANDS = a_report("error_ids", submitted_ids=[*"abcd"], error_instances=1)
SB_CLI = a_report(total_instances=500, failed_ids=[])
EARLY = a_report(total_instances=500, failed_ids=["e"], pending_ids=[])
PENDING = a_report(total_instances=6, failed_ids=["e"], pending_ids=["f"])
HALF_WRITTEN = {name: ["a"] for name in ("completed_ids", "error_ids", "infra_failure_ids")}
PROGRAMBENCH = a_report(error_ids=["b", "d"], almost_resolved_ids=[], incomplete_ids=["d"])
NUMBERS = {"total_instances": 2, "resolved_ids": [7], "unresolved_ids": [8.0]}
LITE, VERIFIED = "swe-bench_lite", "SWE-bench_Verified"
OF_TWO = {f"{LITE}__dev__my.run__1.json": PENDING, f"{VERIFIED}__test__my.run__1.json": PENDING}
BESIDE_BROKEN = {ACME: a_report(), "acme.other.json": '{"total_instances": 4, '}
OF_500 = "run night: 500 instances in all announced, 4 found"
NO_PENDING = [OF_500, "run night: 2 pending instances announced, 0 found"]
TWO_COMPLETED = [OF_500, "run night: 3 completed instances announced, 2 found"]
OF_9 = "run run: 9 instances in all announced, 4 found"
OF_5 = "run run: 5 resolved instances announced, 1 found"
OF_2 = "run run: 2 instances with an error announced, {} found"
OF_6 = ["run run: 6 instances with a result announced, 4 found"]
OF_SUBMITTED = "run run: 4 instances with a result announced, 3 found"
OTHERS = graded(a=False, b=False, c=True, d=True)
DIFFERING = "run run: 2 instances with another verdict in report.json than in the run's report, such as 'a'; "
DIFFERING += "report.json counts"
UNGRADED = "run run: 1 instance with logs and without a result, in them or in the run's report, such as 'y'"
INSIDE = unreadable('no report of SWE-bench: "total_instances" is inside another object', HOSTED)
INCOMPLETE: Event = {"complete": [False]}
LACKING: Event = INCOMPLETE | {"ends": ["interrupted"]}
WHOLE: Event = {"endings": ENDINGS, "unreadable": []}
COMPLETE: Event = WHOLE | {"notes": [], "complete": [True]}


def uncounted(kind: type) -> Event:
    """A report with counts of this type that its lists do not reach."""
    return a_report(total_instances=kind(9), resolved_instances=kind(5), error_instances=kind(2))


CASES: dict[str, tuple[Event, Event]] = {
    "without completed_ids": acme(a_report("completed_ids"), endings=ENDINGS),
    "without unresolved_ids": acme(a_report("unresolved_ids"), endings=ENDINGS),
    "without empty_patch_ids": acme(a_report("empty_patch_ids"), endings=WITHOUT_C),
    "without error_ids": acme(a_report("error_ids"), endings=WITHOUT_D),
    "null": acme(a_report(completed_ids=None), **WHOLE),
    "null, counted": acme(a_report(unresolved_ids=None, unresolved_instances=1), **WHOLE, notes=[]),
    "a dictionary": acme(
        a_report(completed_ids={"a": 1}), **unreadable(f"`completed_ids` has \"{{'a': 1}}\" {LEFT_OUT}")
    ),
    "a number": acme(a_report(resolved_ids=5), **unreadable(f"`resolved_ids` has '5' {LEFT_OUT}")),
    "an odd id": acme(
        a_report(incomplete_ids=["e", None]), **unreadable(f"`incomplete_ids` has 'None' {LEFT_OUT}")
    ),
    "resolved, an error": acme(a_report(error_ids=["a"]), **unreadable(TWICE.format("error_ids"))),
    "resolved, incomplete": acme(
        a_report(incomplete_ids=[*"acd"]), **unreadable(TWICE.format("incomplete_ids"))
    ),
    "resolved, pending": acme(a_report(pending_ids=[*"acd"]), **unreadable(TWICE.format("pending_ids"))),
    # as `make_run_report` says of one whose own report is half written
    "completed, an error, and the infrastructure's": acme(
        {"total_instances": 1, **HALF_WRITTEN}, endings={"a": (None, "infra_failure")}, unreadable=[]
    ),
    "graded by ProgramBench with an error": acme(PROGRAMBENCH, **WHOLE),
    "numbers as ids": acme(NUMBERS, endings={"7": (True, "unset"), "8": (False, "unset")}),
    "r35 counts": acme(uncounted(int), notes=[OF_9, OF_5, OF_2.format(1)], **INCOMPLETE),
    "r35 counts as floats": acme(uncounted(float), notes=[OF_9, OF_5, OF_2.format(1)], **INCOMPLETE),
    "r35 counts as texts": acme(uncounted(str), notes=[OF_9, OF_5, OF_2.format(1)], **INCOMPLETE),
    "r35 inside another object": case({HOSTED: {"report": a_report()}}, types=["run_started"], **INSIDE),
    "r35 pending": case({HOSTED: SB_CLI | {"pending_instances": 2}}, notes=NO_PENDING, **LACKING),
    "r35 completed": case({HOSTED: SB_CLI | {"completed_instances": 3}}, notes=TWO_COMPLETED, **LACKING),
    "submitted without a result": acme(
        a_report(total_instances=6, submitted_ids=[*"abcdef"]),
        endings=ENDINGS,
        tasks=[[*"abcdef"]],
        notes=OF_6,
    ),
    "of another dataset": acme(a_report(submitted_ids=[*"abcdef"]), endings=ENDINGS, tasks=[[*"abcd"]]),
    "r35 counted errors": acme(OPENHANDS | {"incomplete_ids": []}, **COMPLETE),
    "r35 counted errors, incomplete": acme(OPENHANDS | {"incomplete_ids": ["d"]}, **COMPLETE),
    "r35 more errors than submitted": acme(
        OPENHANDS | {"error_instances": 2, "incomplete_ids": ["d"]}, endings=WITHOUT_D, notes=[OF_2.format(0)]
    ),
    "r35 more errors, none incomplete": acme(
        OPENHANDS | {"error_instances": 2}, endings=WITHOUT_D, notes=[OF_2.format(0), OF_SUBMITTED]
    ),
    "a broken one beside a whole one": case(
        BESIDE_BROKEN, runs=["other", "run"], broken=["acme.other.json"], complete=[False, True]
    ),
    "r35 another verdict": case(
        {ACME: a_report(), **OTHERS}, resolved=[False, False, False, True], notes=[DIFFERING]
    ),
    "r35 an earlier batch": case(
        {ACME: a_report(), **graded(x=True), f"{RUN}/acme/y": None}, notes=[UNGRADED], begun=["y"], **LACKING
    ),
    "no reports": case({"a.b.json": {"results": []}, "c.d.json": None}, types=[]),
    "two datasets with one run id": case(
        OF_TWO, runs=["my.run__1"], shard=[f"{VERIFIED}/test"] * 5 + [f"{LITE}/dev"] * 5, ends=[]
    ),
    "a dataset here": case(
        {ACME: a_report(), f"{RUN}/run.json": {"dataset": "/data/me/a.json"}}, benchmark=["a.json"]
    ),
    "a dataset": case({ACME: a_report(), f"{RUN}/run.json": {"dataset": "org/set"}}, benchmark=["org/set"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_report_is_converted_as_it_should(tmp_path: Path, case: str) -> None:
    files, expected = CASES[case]
    agree(expected, a_tree(tmp_path, files))


@pytest.mark.parametrize(
    ("model", "run", "logged"),
    [
        ("gpt-4.1", "test", False),
        ("gpt-4.1", "v1.2", True),
        ("model", "run", False),
        ("OpenHands__m-4.5", "eval_output.swebench", False),
    ],
)
def test_logs_tell_model_and_run_apart_else_a_dot(tmp_path: Path, model: str, run: str, logged: bool) -> None:
    file = write_json(tmp_path / f"{model}.{run}.json", {"total_instances": 0})
    if logged:
        (tmp_path / "logs" / "run_evaluation" / run / model).mkdir(parents=True)
    place = place_of(file, ConvertOptions())
    assert (place.model, place.run) == (model, run)


def test_a_model_that_the_user_names_tells_where_the_run_begins(tmp_path: Path) -> None:
    write_json(tmp_path / "acme__gpt-4.1.v1.2.json", a_report())
    _, report = converted(tmp_path)
    assert report.runs == ["2"]
    assert "--model NAME settles it" in "".join(map(str, report.remarks.values()))
    agree({"runs": ["v1.2"], "remarks": []}, tmp_path, model="acme/gpt-4.1")


@pytest.mark.parametrize("order", [list, sorted, lambda keys: sorted(keys, reverse=True)])
def test_a_report_is_one_in_any_order_of_its_keys_and_of_any_length(tmp_path: Path, order: Any) -> None:
    ids = [f"a-{number}" for number in range(1000)]
    report = a_report(completed_ids=[*ids, "b"], resolved_ids=ids, total_instances=1003)
    write_json(tmp_path / ACME, {name: report[name] for name in order(report)})
    agree({"trials": 1003, "notes": []}, tmp_path)


def test_reports_are_not_read_again_for_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_tree(tmp_path, {f"acme.{run}.json": a_report() for run in ("one", "two", "three")})
    read: list[str] = []

    def reading(file: Path, problems: list[Unreadable]) -> dict[str, Any]:
        read.append(file.name)
        return read_optional(file, problems)

    monkeypatch.setattr(swe_bench, "read_optional", reading)
    agree({"trials": 12}, tmp_path)
    assert max(map(read.count, ("acme.one.json", "acme.two.json"))) == 2  # for the plan and the trials


def test_r34_a_report_in_a_directory_of_its_own_and_its_logs_are_one_run(tmp_path: Path) -> None:
    task = {"a": {"resolved": True, "tests_status": {"FAIL_TO_PASS": {"success": ["x"], "failure": []}}}}
    logs = write_json(tmp_path / "logs/run_evaluation/run/acme/a/report.json", task).parents[2]
    report = write_json(tmp_path / "reports" / ACME, a_report())
    write_json(tmp_path / "old" / ACME, a_report(error_ids=[]), mtime_ns=1)
    write_json(tmp_path / "acme.other.json", a_report())
    for given in (report, logs, tmp_path):
        events, said = converted(given)
        trials = [trial for trial in trials_of(events) if trial["run_id"] == "run"]
        metrics = {trial["task_id"]: trial.get("metrics") for trial in trials}
        assert metrics == {"a": {"fail_to_pass": 1.0}, **dict.fromkeys("bcd")}
        assert (len(trials), said.notes) == (4, [])
    assert said.runs == ["run", "other"]
    write_json(tmp_path / ACME, a_report())
    agree({"trials": 4}, logs)


@pytest.mark.parametrize("given", [".", ACME, "logs"])
def test_a_report_on_predictions_of_several_models_has_each_instance_once(tmp_path: Path, given: str) -> None:
    home = tmp_path / "logs" / "run_evaluation" / "run"
    graded = {
        "acme/a/report.json": {"a": {"resolved": True}},
        "other/b/report.json": {"b": {"resolved": False}},
    }
    a_tree(home, graded | {"other/d": None})
    write_json(tmp_path / ACME, a_report())
    events = agree({"tasks": [None], "ends": ["completed"]}, tmp_path / given)
    found = sorted((trial["model"], trial["task_id"]) for trial in trials_of(events))
    assert found == [("acme", "a"), ("acme", "c"), ("other", "b"), ("other", "d")]  # "c" has no log
    (home / "other" / "a").mkdir()  # the other model's own evaluation of the same instances
    agree({"trials": 4}, tmp_path / ACME)
    agree({"ends": []}, tmp_path)


DEEPER = "{}/proxy/acme/m_sdk_1_maxiter_100"
OF_AGENT = {"agent_class": "CodeActAgent", "llm_config": {"model": "m"}}


@pytest.mark.parametrize(
    ("place", "file", "more", "metadata", "model"),
    [
        ("set/{}", "output.report", {"model_name_or_path": "acme/m1"}, None, "acme/m1"),
        ("set/{}", "report", {"model_name_or_path": "acme/m1"}, None, "acme/m1"),
        (DEEPER, "output.report", {}, {"llm": {"model": "proxy/acme/m"}}, "proxy/acme/m"),
        (DEEPER, "output.report", {}, {"llm": '{"model":"proxy/acme/m","timeout":300}'}, "proxy/acme/m"),
        ("{}/CodeActAgent/m_maxiter_100", "report", {}, OF_AGENT, "m"),
    ],
    ids=["OpenHands", "early OpenHands", "a slash each deeper", "as text", "CodeActAgent"],
)
def test_r34_reports_without_a_name_are_runs_of_their_directories(
    tmp_path: Path, place: str, file: str, more: Event, metadata: Event | None, model: str
) -> None:
    for name in ("one", "two"):
        home = tmp_path / place.format(name)
        if metadata:
            write_json(home / "metadata.json", metadata)
        write_json(home / f"{file}.json", more | a_report())
        agree({"runs": [place.format(name)], "model": [model] * 4}, home)
    assert len(converted(tmp_path)[1].runs) == 2


def test_r34_reports_of_sb_cli_that_swe_agent_moved_are_runs_of_their_directories(tmp_path: Path) -> None:
    for run in ("me/default__m1", "me/default__m2"):
        agree({"runs": [run]}, write_json(tmp_path / run / "results.json", a_report(pending_ids=[])))


@pytest.mark.parametrize("run", ["acme_run1", "acme.run.1"])
def test_a_report_of_an_early_sb_cli_has_only_the_run_id_in_its_name(tmp_path: Path, run: str) -> None:
    counted = ("500 instances in all announced, 5 found", "2 failed instances announced, 1 found")
    said = [f"run {run}: {count}" for count in counted]
    file = write_json(tmp_path / f"{run}.json", EARLY | {"failed_instances": 2})
    agree({"runs": [run], "notes": said, "trials": 5, "ends": ["interrupted"]}, file)
    agree({"ends": ["completed"]}, write_json(file, EARLY))


def test_r34_copies_of_a_report_of_openhands_never_become_one_run(tmp_path: Path) -> None:
    names = ("output.report", "output.report (1)", "output.swebench_eval")
    a_tree(tmp_path, {f"swe/{agent}/{n}.json": a_report() for agent in ("one", "two") for n in names})
    ends = ("", *(f"/{name}" for name in names[1:]))
    assert set(converted(tmp_path)[1].runs) == {
        f"swe/{agent}{end}" for agent in ("one", "two") for end in ends
    }


@pytest.mark.parametrize("name", ["output.report", "OpenHands.eval", "OpenHands.output.swebench"])
def test_r34_a_report_of_openhands_and_the_logs_beside_it_are_one_run(tmp_path: Path, name: str) -> None:
    home = tmp_path / "swe-test" / "m_maxiter_100"
    write_json(home / "metadata.json", {"llm": {"model": "acme/m"}})
    report = write_json(home / f"{name}.json", a_report())
    run = "swe-test/m_maxiter_100"
    agree({"runs": [run]}, report)
    evaluation = "eval" if name == "output.report" else name.removeprefix("OpenHands.")
    logs = home / "logs" / "run_evaluation" / evaluation
    for task, resolved in {"a": True, "b": False}.items():
        write_json(logs / "OpenHands" / task / "report.json", {task: {"resolved": resolved}})
    whole = {"runs": [run], "model": ["acme/m"] * 4, "tasks": [[*"abcd"]], "ends": ["completed"]}
    for given in (tmp_path, home, report, logs):
        agree(whole, given)
    write_json(logs.with_name("again") / "OpenHands" / "a" / "report.json", {"a": {"resolved": False}})
    runs = {trial["run_id"] for trial in trials_of(converted(logs.parent)[0])}
    assert runs == {f"{run}/{again}" for again in (evaluation, "again")}


@pytest.mark.parametrize("key", ["llm", "llm_config"])
def test_openhands_metadata_names_the_model_where_the_report_does_not(tmp_path: Path, key: str) -> None:
    file = write_json(tmp_path / "d" / "m" / "output.report.json", a_report())
    agree({"model": ["unknown"] * 4}, file)
    write_json(file.with_name("metadata.json"), {key: {"model": "litellm_proxy/acme/m"}})
    for named in ({}, {"model_name_or_path": "openhands"}):
        write_json(file, named | a_report())
        agree({"model": ["litellm_proxy/acme/m"] * 4}, file)
    agree({"model": ["m"] * 4}, file, model="m")


def test_r36_openhands_metadata_says_how_the_run_was_made(tmp_path: Path) -> None:
    made: Event = {"dataset": "org/set", "dataset_split": "test", "max_iterations": 100}
    made |= {"llm": {"model": "m"}, "openhands_sdk_version": "1.2"}
    write_json(tmp_path / "d" / "m" / "metadata.json", made)
    plan = plan_of(converted(write_json(tmp_path / "d" / "m" / "output.report.json", a_report()))[0])
    provenance = {"dataset": "org/set", "split": "test", "limits": "turns=100", "agent_version": "1.2"}
    assert (plan["benchmark"], plan["provenance"]) == ("org/set", provenance)
