"""What looks like a secret leaves messages, labels and artifacts, wherever an event is made."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from streamer.sources.base import (
    READ_CHARACTERS,
    VENDOR_KEYS,
    ConvertOptions,
    ConvertReport,
    fit_event,
    without_secrets,
)
from streamer.sources.convert import convert_part, discover
from streamer.sources.swe_bench import SweBench
from tests.sources.builders import Event, converted, plan_of, trials_of, write_json
from tests.sources.harbor import a_job, a_trial_result, summaries
from tests.sources.swe_bench import MODEL, OTHER, REPORT, unpack_runs

RANDOM = "4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c"
WHOLE = [
    *("sk-ant-api03-", "sk-proj-", "ya29.", "github_pat_", "gsk_", "xai-", "pplx-", "nvapi-"),
    *("lsv2_pt_", "e2b_"),
]
CUT = {"sk_live_": 24, "AIza": 35, "ghp_": 36, "glpat-": 20, "xoxb-": 24, "hf_": 34, "r8_": 37, "tvly-": 32}
CUT |= {"dckr_pat_": 27, "npm_": 36}
KEYS = [
    *(prefix + RANDOM for prefix in WHOLE),
    *(prefix + RANDOM[:length] for prefix, length in CUT.items()),
    *("AKIAIOSFODNN7EXAMPLE", f"pypi-{RANDOM}{RANDOM}", f"SG.{RANDOM[:22]}.{RANDOM[:43]}"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "Incorrect key provided: {}. See the docs", "['{}']", "x={}&y=1"])
def test_a_vendors_key_is_taken_out_wherever_it_stands(key: str, around: str) -> None:
    cleaned = without_secrets(around.format(key))
    assert key not in cleaned
    assert RANDOM[:20] not in cleaned
    assert "[secret]" in cleaned


def test_every_vendors_pattern_has_an_example_here() -> None:
    for pattern in VENDOR_KEYS:
        assert [key for key in KEYS if re.fullmatch(pattern, key)], pattern


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [secret]"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", "{'Authorization': 'Basic [secret]'}"),
        ("curl -H 'authorization: abcdef'", "curl -H 'authorization: [secret]'"),
        ("git clone https://me:hunter2@host/x.git", "git clone https://[secret]@host/x.git"),
        ("psql postgres://me:hunter@2@db/x", "psql postgres://[secret]@db/x"),
        ("DB_PASSWORD=hunter2 make", "DB_PASSWORD=[secret] make"),
        ('{"password": "hunter2"}', '{"password": "[secret]"}'),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"[secret]\"}"),
        (r"{\\\"api_key\\\": \\\"abcd1234efgh\\\"}", r"{\\\"api_key\\\": \\\"[secret]\\\"}"),
        ("DB_PASSWORD='two words, 1&2' make", "DB_PASSWORD='[secret]' make"),
        ("PASSWORD=a\\b", "PASSWORD=[secret]"),
        ("mysql --password hunter2 -u me", "mysql --password [secret] -u me"),
        ("OPENAI_API_KEY=abcd1234efgh", "OPENAI_API_KEY=[secret]"),
        ("run --api-key abcd1234efgh", "run --api-key [secret]"),
        ("'token': 'abcd1234efgh'", "'token': '[secret]'"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[secret]"),
        ("GET https://b/x?X-Amz-Signature=ab&z=1", "GET https://b/x?X-Amz-Signature=[secret]&z=1"),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "[secret]"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b", "a [private key] b"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "[private key]"),
    ],
)
def test_what_is_named_a_secret_is_taken_out(text: str, left: str) -> None:
    assert without_secrets(text) == left
    assert without_secrets(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: Unexpected token: function",
        "max_tokens=100000000, 512 tokens left",
        "KeyError: 'api_key'",
        "no module named secrets; passwordless login failed",
        "git@github.com:a/b.git, see https://host/path?page=2",
        "task-1234567890123456789 failed tests: test_token_expiry, test_sk-1",
        "RuntimeError: exit code 3",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert without_secrets(text) == text


def an_event(**fields: object) -> dict[str, object]:
    return {"type": "trial_result", "run_id": "r", "task_id": "t", **fields}


def test_messages_labels_and_artifacts_of_an_event_lose_secrets() -> None:
    fitted, reasons = fit_event(
        an_event(
            message=f"  401 with {KEYS[0]}\n",
            labels={"command": "x --password hunter2", "size": "big"},
            artifacts=[
                {"name": "log", "path": "t/log.txt"},
                {"name": "trace", "url": "https://b/x?X-Amz-Signature=abcdef"},
            ],
        )
    )
    assert fitted is not None
    assert fitted["message"] == "401 with [secret]"
    assert fitted["labels"] == {"command": "x --password [secret]", "size": "big"}
    assert fitted["artifacts"] == [{"name": "log", "path": "t/log.txt"}]
    assert list(reasons) == ["artifacts"]


def test_a_long_message_is_cut_after_secrets_were_taken_out() -> None:
    """A key across the limit does not leave its first half."""
    long = "x" * 4050 + f" {KEYS[0]} " + "y" * 10 * READ_CHARACTERS
    fitted, _ = fit_event(an_event(message=long))
    assert fitted is not None
    assert len(fitted["message"]) == 4096
    assert "sk-ant" not in fitted["message"]
    assert fitted["message"].endswith(f"... (cut, of {len(long):,} characters)")


def test_an_empty_message_is_no_message() -> None:
    fitted, reasons = fit_event(an_event(message=" \n"))
    assert fitted == an_event()
    assert not reasons


def test_a_connectors_message_passes_here(tmp_path: Path) -> None:
    failed = {"exception_type": "AuthenticationError", "exception_message": f"bad key {KEYS[1]}"}
    events, report = converted(a_job(tmp_path / "job", a_trial_result(exception_info=failed)))
    assert trials_of(events)[0]["message"] == "AuthenticationError: bad key [secret]"
    assert not report.left_out


PIECES = (
    "sk-",
    "--api-key ",
    "password ",
    "password='",
    "a://",
    "-----BEGIN ",
    "Bearer ",
    "eyJaaaaa.",
    "eyJ-",
)
PIECES += ("token= ", "token=", "--token=", "token=\\")


def test_any_text_of_the_longest_length_is_read_within_seconds() -> None:
    """Patterns that try many beginnings at many ends would take half a minute for one of these."""
    chance, letters = random.Random(7), "sk-_. =:'\"/@aB1\n\\"
    texts = [piece * (READ_CHARACTERS // len(piece)) for piece in PIECES]
    began = time.process_time()
    for text in (*texts, "".join(chance.choices(letters, k=READ_CHARACTERS))):
        without_secrets(text)
    assert time.process_time() - began < 10


# -----------------------------------------------------------------------------
# Runs of SWE-bench that its own functions graded and reported (see swe_bench/record.py).


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return unpack_runs(tmp_path / "home")


def shares(fail_to_pass: float, pass_to_pass: float) -> dict[str, float]:
    return {"fail_to_pass": fail_to_pass, "pass_to_pass": pass_to_pass}


def by_task(events: list[Event], model: str = MODEL) -> dict[str, Event]:
    return {event["task_id"]: event for event in trials_of(events) if event["model"] == model}


def without_paths(events: list[Event]) -> dict[str, Event]:
    """The trials without the paths of artifacts, which are relative to the report or to the logs."""
    return {task: {**event, "artifacts": None} for task, event in by_task(events).items()}


def test_the_counts_are_those_of_the_harness(home: Path) -> None:
    report = json.loads((home / REPORT).read_text())
    events, said = converted(home / REPORT)
    trials = by_task(events).values()
    modes = Counter(trial["failure_mode"] for trial in trials)
    verdicts = Counter(trial.get("resolved") for trial in trials)
    assert len(plan_of(events)["tasks"]) == report["total_instances"] == 12
    assert len(trials) == report["submitted_instances"] == 11
    assert verdicts[True] == report["resolved_instances"] == 2
    assert verdicts[False] == report["unresolved_instances"] + report["empty_patch_instances"] == 7
    assert verdicts[None] == modes["error"] == report["error_instances"] == 2
    assert modes["empty_patch"] == report["empty_patch_instances"] == 2
    assert modes["infra_failure"] == report["infra_failure_instances"] == 1
    (summary,) = summaries(events).values()
    assert (summary["trials"], summary["resolved"]) == (11, 2)
    assert not said.unreadable + said.left_out


def test_an_instance_says_how_it_ended_with_logs_and_patch_as_artifacts(home: Path) -> None:
    trials = by_task(converted(home / REPORT)[0])
    failed = {"message": "failed tests: tests/test_io.py::test_write", "metrics": shares(0.5, 1.0)}
    for task, said in {
        "astropy__astropy-1": {"resolved": True, "failure_mode": "unset", "message": None},
        "django__django-1": failed,
        "django__django-3": {"metrics": shares(1.0, 0.5), "resolved": False},
        "sympy__sympy-1": {"failure_mode": "infra_failure", "message": "network_unreachable"},
        "sympy__sympy-2": {"failure_mode": "unset", "message": "tests_timed_out", "metrics": None},
        "requests__requests-1": {"resolved": False, "failure_mode": "empty_patch", "message": None},
        "flask__flask-1": {"resolved": None, "failure_mode": "error"},
    }.items():
        assert {name: trials[task].get(name) for name in said} == said, task
    assert trials["flask__flask-1"]["message"].endswith("error: patch failed: src/app.py:3")
    paths = [artifact["path"] for artifact in trials["django__django-1"]["artifacts"]]
    place = f"logs/run_evaluation/nightly/{MODEL}/django__django-1"
    assert paths == [f"{place}/{name}" for name in ("patch.diff", "run_instance.log", "test_output.txt")]
    assert all((home / path).is_file() for path in paths)


def test_report_and_logs_are_one_run_and_each_trial_is_sent_once(home: Path) -> None:
    events, report = converted(home)
    assert report.runs == ["nightly"]
    assert report.trials == 11 + 2
    assert report.duplicates == 11
    of_report = without_paths(converted(home / REPORT)[0])
    assert without_paths(events) == of_report
    logs = home / "logs" / "run_evaluation" / "nightly"
    assert without_paths(converted(logs)[0]) == of_report
    assert by_task(events, OTHER)["django__django-1"]["resolved"] is False


def test_a_run_has_ended_once_each_model_with_logs_has_a_report(home: Path) -> None:
    """The other model still runs in the recording."""
    assert "run_finished" not in {event["type"] for event in converted(home)[0]}
    shutil.rmtree(home / "logs/run_evaluation/nightly" / OTHER)
    assert "run_finished" in {event["type"] for event in converted(home)[0]}


def test_without_logs_the_report_alone_has_the_same_counts(home: Path) -> None:
    with_logs = by_task(converted(home / REPORT)[0])
    shutil.rmtree(home / "logs")
    alone = by_task(converted(home / REPORT)[0])
    verdicts = {task: (t.get("resolved"), t["failure_mode"]) for task, t in with_logs.items()}
    assert {task: (t.get("resolved"), t["failure_mode"]) for task, t in alone.items()} == verdicts
    assert alone["sympy__sympy-1"]["message"] == "network_unreachable"


def test_a_run_that_goes_on_has_results_and_starts(home: Path) -> None:
    (home / REPORT).unlink()
    logs = home / "logs" / "run_evaluation" / "nightly"
    events, _ = converted(logs)
    assert len(trials_of(events)) == 7 + 2
    started = {event["task_id"] for event in events if event["type"] == "trial_started"}
    assert started == {"flask__flask-1", "flask__flask-2"}
    assert "run_finished" not in {event["type"] for event in events}
    assert plan_of(events)["benchmark"] == "SWE-bench/SWE-bench_Verified"


def test_the_parts_of_a_run_have_the_events_of_the_whole(home: Path) -> None:
    logs, options = home / "logs" / "run_evaluation" / "nightly", ConvertOptions()
    ((run,), _, _) = discover([logs], [SweBench()], options)
    changed = logs / MODEL / "django__django-1" / "report.json"
    part = SweBench().part(logs, changed)
    assert part == changed.parent
    [event] = convert_part(run, part, options, ConvertReport())
    assert event == by_task(converted(logs)[0])["django__django-1"]
    assert SweBench().part(logs, logs / "run.json") is None
    assert SweBench().part(home / REPORT, home / REPORT) is None


@pytest.mark.parametrize("content", ["", "{"])
def test_a_broken_report_of_an_instance_is_named_unless_the_run_lists_it_as_an_error(
    home: Path, content: str
) -> None:
    """As `make_run_report` counts it. On Modal an instance with an error has an empty report."""
    file = home / "logs/run_evaluation/nightly" / MODEL / "django__django-1" / "report.json"
    file.write_text(content)
    assert [reason[:28] for _, reason in converted(home / REPORT)[1].unreadable] == [
        "django__django-1/report.json"
    ]
    report = json.loads((home / REPORT).read_text())
    report["unresolved_ids"].remove("django__django-1")
    report["error_ids"].append("django__django-1")
    write_json(home / REPORT, report)
    events, said = converted(home / REPORT)
    assert (by_task(events)["django__django-1"]["failure_mode"], said.unreadable) == ("error", [])


@pytest.mark.parametrize("content", ["{}", '{"other": {"resolved": true}}', '{"django__django-1": {}}'])
def test_a_report_without_the_result_of_its_instance_is_reported(home: Path, content: str) -> None:
    """Also while the run goes on, when no other file names the instance."""
    file = home / "logs/run_evaluation/nightly" / MODEL / "django__django-1" / "report.json"
    file.write_text(content)
    (home / REPORT).unlink()
    events, said = converted(home)
    assert "django__django-1" not in by_task(events)
    reason = "django__django-1/report.json: it has no result under `django__django-1`"
    assert said.unreadable == [(file, reason)]


@pytest.mark.parametrize(
    ("lists", "reason"),
    [
        ({"resolved_ids": 5}, "`resolved_ids` has '5' instead of instance ids; it is left out"),
        ({"incomplete_ids": ["a", None]}, "`incomplete_ids` has 'None' instead of instance ids"),
        ({"error_ids": ["a"], "resolved_ids": ["a"]}, "the instance 'a' is in resolved_ids, error_ids, but"),
    ],
)
def test_a_report_that_cannot_be_is_reported_and_its_plan_is_not_complete(
    tmp_path: Path, lists: Event, reason: str
) -> None:
    report = {"total_instances": 1, "completed_ids": [], "empty_patch_ids": ["b"], **lists}
    events, said = converted(write_json(tmp_path / "m.nightly.json", report))
    assert [path.name for path, _ in said.unreadable] == ["m.nightly.json"]
    assert said.unreadable[0].reason.startswith(reason)
    assert plan_of(events)["plan_complete"] is False


def test_an_instance_may_be_completed_and_an_error_and_the_infrastructures(tmp_path: Path) -> None:
    """As `make_run_report` says of one whose own report is half written."""
    lists = {name: ["a"] for name in ("completed_ids", "error_ids", "infra_failure_ids")}
    events, said = converted(write_json(tmp_path / "m.nightly.json", {"total_instances": 1, **lists}))
    assert [(t.get("resolved"), t["failure_mode"]) for t in trials_of(events)] == [(None, "infra_failure")]
    assert not said.unreadable


@pytest.mark.parametrize(
    ("content", "complete"),
    [
        ("[]", True),
        ('{"total_instances', True),
        ('{"total_instances": 12, "submitted_instances": 11, "resolved_ids": ["a"', False),
        ('{"total_instances": 1, "resolved_ids": 5}', False),
    ],
)
def test_a_broken_report_of_a_run_loses_no_instance_with_logs_and_has_no_complete_plan(
    home: Path, content: str, complete: bool
) -> None:
    """Where it is known as a report."""
    (home / REPORT).write_text(content)
    events, _ = converted(home)
    assert len(by_task(events)) == 7
    assert plan_of(events)["plan_complete"] is complete
