"""The files that a trial left are named where they lie."""

from __future__ import annotations

import json
from pathlib import Path

from streamer.sources.files import artifacts_of
from tests.sources.builders import a_result, a_run, converted, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result


def written(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")


def test_files_of_the_named_directories_are_listed_in_order_without_links(tmp_path: Path) -> None:
    trial = tmp_path / "run" / "t" / "t.1-of-1"
    written(*(trial / name for name in ("logs/b.cast", "logs/a.bin", "z.txt", "results.json", "other/x")))
    (trial / "logs" / "link.txt").symlink_to("/etc/hostname")
    (trial / "linked").symlink_to("/etc")
    assert artifacts_of(tmp_path / "run", trial, (".", "logs", "linked", "none"), ("results.json",)) == [
        {"name": "z.txt", "path": "t/t.1-of-1/z.txt", "media_type": "text/plain"},
        {"name": "logs/a.bin", "path": "t/t.1-of-1/logs/a.bin"},
        {"name": "logs/b.cast", "path": "t/t.1-of-1/logs/b.cast", "media_type": "application/x-asciicast"},
    ]


def test_names_that_no_event_may_hold_are_left_out_and_at_most_32_are_named(tmp_path: Path) -> None:
    written(tmp_path / "t" / "a\nb", tmp_path / "t" / "c\\d", tmp_path / "t" / ("e" * 200))
    assert artifacts_of(tmp_path, tmp_path / "t", (".",)) is None
    written(*(tmp_path / "t" / f"{number:02}.log" for number in range(40)))
    found = artifacts_of(tmp_path, tmp_path / "t", (".",))
    assert found is not None
    assert [artifact["name"] for artifact in found] == [f"{number:02}.log" for number in range(32)]


def test_a_trial_without_a_directory_or_elsewhere_has_none(tmp_path: Path) -> None:
    written(tmp_path / "a" / "x.log")
    assert artifacts_of(tmp_path, None, (".",)) is None
    (tmp_path / "b").mkdir()
    assert artifacts_of(tmp_path / "b", tmp_path / "a", (".",)) is None


def test_terminal_bench_names_screens_recordings_and_logs_also_of_a_crashed_trial(tmp_path: Path) -> None:
    crashed = a_result("crashed", id="2", is_resolved=None)
    run = a_run(tmp_path / "run1", [a_result()], [a_result(), crashed])
    for task in ("oom", "crashed"):
        home = run / task / f"{task}.1-of-1.run1"
        written(home / "panes/post-test.txt", home / "sessions/agent.cast", home / "commands.txt")
    events, _ = converted(run)
    assert {event["task_id"]: [a["name"] for a in event["artifacts"]] for event in trials_of(events)} == {
        "oom": ["commands.txt", "panes/post-test.txt", "sessions/agent.cast"],
        "crashed": ["commands.txt", "panes/post-test.txt", "sessions/agent.cast"],
    }


def test_a_name_in_a_run_level_file_leads_nowhere_else(tmp_path: Path) -> None:
    written(tmp_path / "elsewhere" / "x" / "secret.txt")
    odd = a_result("../elsewhere", trial_name="x", is_resolved=None)
    events, _ = converted(a_run(tmp_path / "run1", [a_result()], [odd]))
    assert ["artifacts" in event for event in trials_of(events)] == [False, False]


def test_harbor_names_logs_of_steps_and_what_was_collected(tmp_path: Path) -> None:
    result = a_trial_result(step_results=[{"step_name": "one"}, {"step_name": "../up"}])
    job = a_job(tmp_path / "job", result)
    for name in (
        "trial.log",
        "exception.txt",
        "steps/one/agent/a.txt",
        "steps/one/verifier/test-stdout.txt",
        "artifacts/manifest.json",
        "artifacts/logs/artifacts/fix.patch",
        "steps/one/artifacts/deep/er/out.diff",
        "config.json",
    ):
        written(job / "t0" / name)
    write_json(job / "up" / "agent" / "a.txt", "x")
    (trial,) = trials_of(converted(job)[0])
    assert [artifact["name"] for artifact in trial["artifacts"]] == [
        "exception.txt",
        "trial.log",
        "steps/one/agent/a.txt",
        "steps/one/verifier/test-stdout.txt",
        "artifacts/manifest.json",
        "artifacts/logs/artifacts/fix.patch",
        "steps/one/artifacts/deep/er/out.diff",
    ]


def test_a_copy_of_a_trial_without_its_files_adds_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    written(run / "oom" / "oom.1-of-1.run1" / "panes" / "post-test.txt")
    a_run(tmp_path / "copy", [a_result()])
    events, report = converted(tmp_path)
    assert len(trials_of(events)) == report.duplicates == 1


def test_real_trials_of_fc_eval_name_files_that_are_there_and_the_tests_that_failed(runs: Path) -> None:
    named = said = 0
    for run in sorted(path for path in runs.iterdir() if path.is_dir()):
        for trial in trials_of(converted(run)[0]):
            for artifact in trial.get("artifacts", []):
                assert (run / artifact["path"]).is_file()
                assert not artifact["path"].endswith("/results.json")
                named += 1
            own = run / trial["task_id"] / trial.get("trial_name", "") / "results.json"
            if "message" in trial and own.is_file():
                result = json.loads(own.read_text())
                failed = [test for test, status in result["parser_results"].items() if status == "failed"]
                assert trial["message"] == f"failed tests: {', '.join(failed)}"
                assert result["is_resolved"] is False
                said += 1
    assert named > 300
    assert said > 100
