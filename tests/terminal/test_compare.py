"""`streamer compare`: pairs, counts, and an exit code that CI can rest on."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.terminal import cli
from streamer.worker.process import ensure_topics
from tests.folding.matched import the_plan, trial
from tests.house.repository import ROOT
from tests.support.cli import COMMAND, found_by, streamer
from tests.support.events import Event, a_plan, a_retraction, a_trial
from tests.support.layers import ENGINES
from tests.support.online import bootstrap_of
from tests.terminal.calling import lines, ndjson, sent, stderr_of
from tests.terminal.gating import on_verdict, run_of, ten, written
from tests.web.feeding import fed
from tests.web.serving import Serving

ORDER = [f"t{n:02}" for n in range(10)]


def shuffled(run: str, day: int) -> Event:
    order = {"tasks": ORDER, "attempts": 1, "order": ORDER, "order_kind": "shuffled"}
    return a_plan(run_id=run, started_at=f"2026-01-0{day}T00:00:00Z", **order)


def ended(run: str) -> Event:
    return {"type": "run_finished", "run_id": run}


@pytest.mark.parametrize(
    ("passed", "options", "code", "said"),
    [
        (8, [], 0, "nothing shows that it is worse"),
        (9, [], 0, "nothing shows that it is worse"),
        (7, [], 0, "-10.0 points [-41.2, 22.6], p = 1; nothing shows that it is worse"),
        (7, ["--plain"], 1, "B is worse than A"),
        (7, ["--plain", "--tolerance", "0.1"], 0, "within --tolerance"),
        (6, ["--plain", "--tolerance", "0.1"], 1, "B is worse than A"),
        (2, [], 1, "B is worse than A"),
        (2, ["--tolerance", "0.4"], 0, "nothing shows that it is worse"),
        (2, ["--significance", "0.01"], 0, "not significantly"),
        (0, ["--significance", "0.05"], 1, "B is worse than A"),
        (7, ["--metric", "cost_usd"], 1, "B is worse than A"),
        (7, ["--metric", "cost_usd", "--tolerance", "0.5"], 0, "nothing shows that it is worse"),
        (7, ["--metric", "task_speedup"], 3, "no task where both sides have task_speedup"),
    ],
)
def test_the_exit_code_says_whether_b_is_worse(
    tmp_path: Path, passed: int, options: list[str], code: int, said: str
) -> None:
    a = written(tmp_path, "a", ten("r", 8, cost_usd=1.0))
    b = written(tmp_path, "b", ten("s", passed, cost_usd=1.5))
    done = streamer("compare", a, b, "--files", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert said.encode() in done.stderr
    assert b"10 tasks in common: passed by both" in done.stdout


def test_a_verdict_on_a_metric_says_how_many_tasks_have_it_on_both_sides(tmp_path: Path) -> None:
    lost = [*ten("s", 8, cost_usd=1.5)[:4], *ten("s", 8)[4:]]
    a, b = (written(tmp_path, name, of) for name, of in (("a", ten("r", 8, cost_usd=1.0)), ("b", lost)))
    said = "cost_usd of B minus that of A on the 4 of 10 tasks with it on both sides: +$0.5000"
    assert said in stderr_of(streamer("compare", a, b, "--files", "--metric", "cost_usd", "--plain"), 1)


def test_two_agents_of_one_run_are_compared_and_baselines_left_out(tmp_path: Path) -> None:
    result = ten("r", 8) + ten("r", 3, agent="other") + ten("r", 10, agent="oracle", model="oracle")
    file = written(tmp_path, "a", result)
    agents = ["--a-agent", "terminus:gpt-5", "--b-agent", "other:gpt-5"]
    done = streamer("compare", file, file, "--files", *agents, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["both_passed"], told["only_a"], told["neither"]) == (0, 3, 5, 2)
    assert told["differences"]["pass_rate"]["p_value"] == 0.0625
    everybody = json.loads(streamer("compare", file, file, "--files", "--json").stdout)
    assert everybody["a"]["trials"] == 2 * len(ORDER)
    running = [*ten("r", 9, agent="x")[:9], *ten("r", 0, agent="y")[:9]]
    file = written(tmp_path, "b", [shuffled("r", 1) | {"started_at": None}, *running])
    agents = ["--a-agent", "y:gpt-5", "--b-agent", "x:gpt-5"]
    text = streamer("compare", file, file, "--files", *agents).stdout.decode()
    assert "x:gpt-5 can no longer be overtaken by y:gpt-5, unless results are corrected" in text
    assert "x:gpt-5 ahead in this run's final pass rate: +100.0 points so far" in text


def test_runs_are_compared_as_the_page_and_the_files_of_their_events_are(
    settings: Settings, tmp_path: Path
) -> None:
    """A run that is over, and one that began later and has eight of ten results."""
    later = {"started_at": "2026-01-03T00:00:00Z"}  # a shuffle counts only if it was declared before
    whole = [shuffled("r", 1), *ten("r", 10, cost_usd=0.3, **later)]
    begun = [shuffled("s", 2), *ten("s", 0, cost_usd=0.1, **later)[:8]]
    fed(settings, whole + begun, log=True)
    files = written(tmp_path, "a", whole), written(tmp_path, "b", begun), "--files"
    for form in ("text", "json"):
        options = ("--format", form, "--limit", 100)
        done = streamer("compare", "r", "s", *options, environment=found_by(settings))
        assert done.returncode == 1, done.stderr
        of_files = streamer("compare", *files, *options)
        assert (done.stdout, done.stderr) == (of_files.stdout, of_files.stderr)
        assert b"terminus:gpt-5 of r ahead of terminus:gpt-5 of s in the final pass rate: [" in done.stdout
    with Serving(settings) as serving:
        assert json.loads(done.stdout) == serving.get("/api/compare?a=r&b=s").json()


def test_what_may_be_said_what_flipped_and_what_is_not_common_is_told(tmp_path: Path) -> None:
    first, second = ([shuffled(run, day) | {"order": None}] for run, day in (("r", 1), ("s", 2)))
    first += ten("r", 8, agent="old", model="m")
    second[0]["tasks"] = [*ORDER, "extra"]
    second += ten("s", 1, agent="new", model="m")
    second.append(a_trial(run_id="s", task_id="extra", agent="new", model="m"))
    sides = written(tmp_path, "a", first), written(tmp_path, "b", second), "--files"
    text = streamer("compare", *sides, environment={"COLUMNS": "80"}).stdout.decode()
    assert max(map(len, text.partition("\n\n")[2].splitlines())) <= 80
    assert "old:m of r ahead on tasks like these: sign test p = 0.0156" in text
    assert "new:m of s minus old:m of r: -70.0 points [" in text
    assert "10 tasks in common: A passes 80.0 % of these and 80.0 % of all its 10; B passes 10.0 %" in text
    rows = [line for line in text.splitlines() if ":" not in line]
    flips, not_common = (line.split() for line in rows if line.startswith(("A alone", "B  ")))
    assert (flips, not_common) == (["A", "alone", "7"], ["B", "1"])
    assert "\nA alone: t01, t02, t03, t04, t05, t06, t07\n" in text
    assert "\nB: extra\n" in text
    result = json.loads(streamer("compare", *sides, "--json", "--limit", "2").stdout)
    assert (result["only_a_tasks"], result["only_b_tasks"]) == (["t01", "t02"], [])
    assert (result["not_in_a"], result["not_in_b"], len(result["words"])) == (["extra"], [], 3)


HOSTILE = "<img src=x onerror=alert(1)>|`*_\u202e"


def test_markdown_and_html_are_files_in_which_hostile_names_are_text(tmp_path: Path) -> None:
    a = written(tmp_path, "a", ten("r", 8, agent=HOSTILE, tier=HOSTILE, metrics={"wait": 1.5}))
    b = written(tmp_path, "b", ten("s", 2, agent="new", tier=HOSTILE, metrics={"wait": 2.5}))
    for file, own in (("c.md", "\n| <code>wait</code> | 1.5"), ("c.html", "Content-Security-Policy")):
        assert streamer("compare", a, b, "--files", "--out", tmp_path / file).returncode == 1
        content = (tmp_path / file).read_text()
        for said in ("Tasks that only one side passes", "wait", own):
            assert said in content
        for acting in ("<img", "\u202e"):
            assert acting not in content


def test_a_named_metric_decides(tmp_path: Path) -> None:
    plan = {"tasks": 10, "attempts": 1, "metrics": {"wait": {"direction": "lower", "unit": "seconds"}}}
    a, b = (
        written(tmp_path, run, [a_plan(run_id=run, **plan), *ten(run, 8, metrics={"wait": wait})])
        for run, wait in (("r", 1.5), ("s", 2.5))
    )
    for first, second, metric, code, said in (
        (a, b, "wait", 1, "metrics/wait of B minus that of A: +1 s [1 s, 1 s], p = 0.00195"),
        (b, a, "wait", 0, "metrics/wait of B minus that of A: -1 s"),
        (a, b, "other", 3, "both sides have metrics/other"),
    ):
        done = streamer("compare", first, second, "--files", "--metric", f"metrics/{metric}")
        assert said in stderr_of(done, code)


def numeric(folder: Path, run: str, value: float, *, first: int = 0, attempts: int = 1, **plan: Any) -> Path:
    """Twenty tasks whose scorer gives a number and no verdict (R31)."""
    tasks = [f"t{n:02}" for n in range(first, first + 20)]
    started = a_plan(run_id=run, tasks=tasks, attempts=attempts, **plan)
    trials = [
        a_trial(run_id=run, task_id=task, attempt=n + 1, resolved=None, metrics={"match": value})
        for task in tasks
        for n in range(attempts)
    ]
    return written(folder, run, [started, *trials, ended(run) | {"status": "done"}])


NAMED: dict[str, Any] = {"metrics": {"match": {}}}


@pytest.mark.parametrize(
    ("ours", "theirs", "codes", "said"),
    [
        (NAMED, NAMED, (1, 1), "metrics/match of B minus that of A: -0.75"),
        ({}, NAMED, (1, 1), "metrics/match of B minus that of A: -0.75"),  # the plan of either side names it
        (NAMED | {"attempts": 3}, NAMED, (1, 1), "metrics/match of B minus that of A: -0.75"),
        ({}, {}, (3, 3), "cannot be compared by pass_rate: no verdicts; --metric metrics/match"),
        (NAMED, NAMED | {"first": 10}, (3, 3), "not comparable: the sides ran different tasks"),
    ],
)
def test_r31_numbers_without_verdicts_are_never_not_worse(
    tmp_path: Path, ours: Event, theirs: Event, codes: tuple[int, int], said: str
) -> None:
    a, b = numeric(tmp_path, "a", 1.0, **ours), numeric(tmp_path, "b", 0.25, **theirs)
    compared = streamer("compare", a, b, "--files")
    gated = streamer("gate", b, "--against", a)
    assert (compared.returncode, gated.returncode) == codes, (compared.stderr, gated.stdout)
    assert said in compared.stderr.decode()
    assert b"lack verdicts" not in compared.stdout
    if b"different tasks" in compared.stderr:  # inference 7
        assert b"the sides ran different tasks" in gated.stdout
        for asked in (("compare", a, b, "--files"), ("gate", b, "--against", a)):
            assert streamer(*asked, "--allow", "tasks").returncode == 1
    target = streamer("gate", b, "--target", "0.5")
    assert (target.returncode, b"the bounds are unknown" in target.stdout) == (3, True)


def test_without_common_attempts_there_is_no_p_and_significance_gives_no_verdict(tmp_path: Path) -> None:
    """Side A has attempts 1 and 2 of each task, side B has attempt 3."""
    again = [one | {"attempt": 2} for one in ten("r", 10)]
    a = written(tmp_path, "a", [*ten("r", 10), *again])
    b = written(tmp_path, "b", [one | {"attempt": 3} for one in ten("s", 0)])
    done = streamer("compare", a, b, "--files")
    [heads] = [line for line in done.stdout.decode().splitlines() if line.startswith("mean over tasks")]
    assert heads.split()[-1] == "equal", "there is no column p"
    assert (done.returncode, b"points [-100.0, -5" in done.stderr) == (1, True), done.stderr
    assert b"r has no plan and no end: it counts as complete" in done.stdout
    assert "cannot be tested" in stderr_of(streamer("compare", a, b, "--files", "--significance", "0.05"), 3)


def test_different_tasks_are_compared_only_where_that_is_allowed(tmp_path: Path) -> None:
    a, b = written(tmp_path, "a", ten("r", 10)), written(tmp_path, "b", ten("s", 0)[:6])
    refused = streamer("compare", a, b, "--files")
    assert "not comparable: the sides ran different tasks" in stderr_of(refused, 3)
    assert b"6 tasks in common: A passes 100.0 % of these and 100.0 % of all its 10; B" in refused.stdout
    assert streamer("compare", a, b, "--files", "--allow", "tasks").returncode == 1


def test_before_the_end_evidence_decides(tmp_path: Path) -> None:
    """Six straight losses are evidence of 18.1, seven of 31.9, eight of 56.8; 20 is needed, 40 for wins."""
    a = written(tmp_path, "a", [shuffled("r", 1), *ten("r", 10)])
    worse = "B is worse than A on tasks like these, by evidence of 20 or more: "
    for known, code, said in ((7, 1, worse), (6, 0, "; nothing shows yet that it is worse")):
        b = written(tmp_path, "b", [shuffled("s", 2), *ten("s", 0)[:known]])
        text = stderr_of(streamer("compare", a, b, "--files"), code)
        assert said in text
        assert "-100.0 points so far" in text
        cost = streamer("compare", a, b, "--files", "--tolerance", "0.1")
        assert "before the end" in stderr_of(cost, 3)
    a = written(tmp_path, "a", [shuffled("r", 1), *ten("r", 0)])
    better = "; B is better than A on tasks like these, by evidence of 40 or more"
    for known, said in ((8, better), (7, "; nothing shows yet that it is worse")):
        b = written(tmp_path, "b", [shuffled("s", 2), *ten("s", 10)[:known]])
        assert said in stderr_of(streamer("compare", a, b, "--files"), 0)


def test_results_that_never_came_are_named_beside_the_p_that_they_widen(tmp_path: Path) -> None:
    """Ten wins and no loss are p = 0.002; with three unknown tasks p is 0.0923 (R19)."""
    planned = [f"t{n:02}" for n in range(13)]
    sides = [
        written(tmp_path, run, [a_plan(run_id=run, tasks=planned, attempts=1), *ten(run, n), ended(run)])
        for run, n in (("r", 10), ("s", 0))
    ]
    done = streamer("compare", *sides, "--files")
    said = b"3 of 13 tasks lack verdicts: the interval and p for pass rates count these both ways"
    assert said in done.stdout
    assert b"p = 0.0923" in done.stderr


def test_composites_wait_for_the_scores_of_a_judge(tmp_path: Path) -> None:
    """Scores that the plan expects stay unknown after the end (R13)."""
    for missing in (0, 1):
        sides = []
        for run in "rs":
            trials = ten(run, 8)[:missing] + ten(run, 8, score=0.5)[missing:]
            plan = a_plan(run_id=run, tasks=10, attempts=1, judged=True)
            sides += [written(tmp_path, run, [plan, *trials, ended(run)])]
        done = streamer("compare", *sides, "--files", "--metric", "composite_score")
        assert done.returncode == (3 if missing else 0), done.stderr
        assert (b"trials wait for a judge's score: composite_score has no" in done.stdout) == bool(missing)


def test_four_tasks_give_means_and_no_verdict(tmp_path: Path) -> None:
    sides = [written(tmp_path, run, ten(run, passed)[:4]) for run, passed in (("r", 4), ("s", 0))]
    assert "an interval needs all trials of 5 tasks" in stderr_of(streamer("compare", *sides, "--files"), 3)


# `streamer events` on real brokers: what the log holds of a run, and a finished run priced anew.
TRIALS = [
    a_trial(task_id="estimated", input_tokens=1_000_000, output_tokens=0),
    a_trial(task_id="reported", input_tokens=1_000_000, output_tokens=0, cost_usd=7.0),
    a_trial(task_id="unknown"),
    a_trial(task_id="corrected", revision=1, input_tokens=1, output_tokens=1),
    a_trial(task_id="corrected", revision=2, input_tokens=0, output_tokens=1_000_000),
    a_trial(task_id="retracted", input_tokens=5, output_tokens=5),
    a_retraction(task_id="retracted"),
    a_plan(tasks=5, revision=3),
]


@pytest.fixture(params=ENGINES)
def settings_of_events(request: pytest.FixtureRequest, namespace: str) -> Settings:
    result = Settings(bootstrap=bootstrap_of(request, request.param), namespace=namespace, partitions=3)
    asyncio.run(ensure_topics(result))
    return result


def options(settings: Settings) -> tuple[str, ...]:
    return "--bootstrap", settings.bootstrap, "--namespace", settings.namespace


def send(settings: Settings, run: str, *values: bytes) -> None:
    sent(settings, Names(settings.namespace).trial_events, run, *((run.encode(), value) for value in values))


def test_a_finished_run_is_priced_again_from_the_log(settings_of_events: Settings, tmp_path: Path) -> None:
    (prices := tmp_path / "prices.toml").write_text('[models."gpt-5"]\ninput = 100\noutput = 200\n')
    other = [event | {"run_id": "run-10"} for event in TRIALS]
    assert streamer("publish", *options(settings_of_events), stdin=ndjson([*TRIALS, *other])).returncode == 0

    printed = streamer("events", "run-1", *options(settings_of_events))
    assert printed.returncode == 0
    assert lines(printed.stdout) == TRIALS
    assert b"8 events of run-1; 0 rejected" in printed.stderr

    def folded(stdin: bytes, *priced: object) -> tuple[float, str]:
        done = streamer("fold", "-", *priced, "--json", stdin=stdin)
        assert done.returncode == 0
        [run] = [summary for summary in lines(done.stdout) if summary["type"] == "run_summary"]
        return run["total_cost"], run["digest"]

    assert folded(printed.stdout)[0] == 1.25 + 7 + 10
    again = folded(printed.stdout, "--prices", prices)
    assert again[0] == 100 + 7 + 200
    assert again == folded(ndjson(TRIALS), "--prices", prices)


def test_each_event_is_one_line_and_what_was_rejected_is_counted(settings_of_events: Settings) -> None:
    run = 'run "ä"\\1'
    spread = json.dumps(a_trial(run_id=run, trial_name="two\nlines"), indent=2).replace("\n", "\r\n").encode()
    odd = json.dumps(a_trial(run_id=run, trial_name="two")).encode().replace(b'"two"', b'"two", "x": NaN')
    bad = json.dumps({"type": "trial_result", "run_id": run}).encode()
    send(settings_of_events, run, spread, bad, b"garbage", b"", odd)
    printed = streamer("events", run, "--json", *options(settings_of_events))
    first, second = (json.loads(line) for line in printed.stdout.splitlines())
    assert (first["run_id"], first["trial_name"], second["trial_name"]) == (run, "two\nlines", "two")
    assert b"2 events of" in printed.stderr
    assert b"1 rejected record of it" in printed.stderr


def test_a_run_that_the_log_does_not_hold_has_names_like_it(settings_of_events: Settings) -> None:
    here = options(settings_of_events)
    for where, said in (
        (here, "nor of any other run"),
        ((*here[:2], "--namespace", "empty"), "topic 'empty.trial-events' does not exist"),
        (("--bootstrap", "127.0.0.1:1"), "no Kafka broker answers at 127.0.0.1:1"),
    ):
        done = streamer("events", "run-1", *where)
        assert said in stderr_of(done, 1)
        assert done.stdout == b""
    send(settings_of_events, "run-1", ndjson(TRIALS[:1]))
    for run, said in (("run-2", "Did you mean run-1?"), ("zzz", "The latest of 1 run in it: run-1")):
        assert said in stderr_of(streamer("events", run, *here), 1)


# `streamer gate`: an exit code that CI can rest on, of files.
@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return written(tmp_path, "base", run_of("s", "b", 18))


@pytest.mark.parametrize(
    ("passed", "of", "options", "code", "said"),
    [
        (18, 20, [], 0, "PASS: pass_rate at most 2 points worse than"),
        (17, 20, [], 1, "FAIL: "),
        (17, 20, ["--max-drop", "0.05"], 0, "PASS: "),
        (17, 20, ["--question", "ability"], 3, "UNDECIDED: "),
        (0, 20, ["--question", "ability"], 1, "FAIL: "),
        (4, 5, [], 3, "5 of 20 pairs"),
        (0, 8, [], 1, "95 %, however often you look"),
        (18, 20, ["--target", "0.9"], 0, "target: pass"),
        (18, 20, ["--target", "0.95"], 1, "target: fail"),
        (18, 20, ["--metric", "cost_usd", "--max-drop", "0.3"], 1, "cost_usd"),
        (18, 20, ["--metric", "metrics/reward", "--max-drop", "0.1"], 0, "metrics/reward"),
    ],
)
def test_the_exit_code_is_the_verdict_on_files(
    tmp_path: Path, passed: int, of: int, options: list[str], code: int, said: str
) -> None:
    base = written(tmp_path, "base", run_of("s", "b", 18, cost_usd=1.0, metrics={"reward": 0.5}))
    mine = written(tmp_path, "mine", run_of("r", "a", passed, of, cost_usd=1.5, metrics={"reward": 0.45}))
    done = streamer("gate", mine, "--against", base, *options)
    assert (done.returncode, done.stderr) == (code, b"")
    assert said in done.stdout.decode()


def test_json_is_one_canonical_line_and_markdown_a_comment(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 0, 8, cost_usd=0.25))
    done = streamer("gate", mine, "--against", baseline, "--json", "--markdown", tmp_path / "comment.md")
    [line] = done.stdout.splitlines()
    result = json.loads(line)
    assert (done.returncode, result["type"], result["verdict"]) == (1, "gate_verdict", "fail")
    candidate = {"run_id": "r", "agent_model": "a:m", "planned": 20, "known": 8, "passed": 0, "over": True}
    assert result["candidate"] == candidate | {"source": str(mine)}
    assert (tmp_path / "comment.md").read_text().startswith("## ❌ Gate: fail\n")


def test_an_agent_or_a_run_of_a_file_is_named_behind_a_slash(tmp_path: Path) -> None:
    events = [*run_of("r", "a", 18), *run_of("r", "b", 10)[1:], *run_of("s/x", "b", 18)]
    file = written(tmp_path, "events", events)
    cases = ("r/a:m", "r/b:m", 0), ("r/b:m", "r/a:m", 1), ("r/a:m", "s/x", 0), ("s/x/b:m", "r/a:m", 0)
    for candidate, against, code in cases:
        assert stderr_of(streamer("gate", file / candidate, "--against", file / against), code) == ""
    # A plan that names no task says nothing of two runs, but these are two agents of one.
    done_of = [trial("r", "a", "x", False), trial("r", "b", "x", True), trial("r", "b", "y", True)]
    file = written(tmp_path, "events", [the_plan("r", tasks=2, order=None, order_kind=None), *done_of])
    result = streamer("gate", file / "a:m", "--against", file / "b:m")
    assert (result.returncode, b"1 of 2 pairs" in result.stdout) == (1, True)


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", [the_plan("r"), trial("r", "a", "t\u202e00", True)])
    done = streamer("gate", mine, "--against", baseline)
    assert "\u202e" not in done.stdout.decode()


def test_help_tells_false_alarms_and_power_as_the_page_has_them() -> None:
    text = " ".join(streamer("gate", "--help").stdout.decode().split())
    page = (ROOT / "docs" / "inference.md").read_text("utf-8")
    for said in (
        "as good as its baseline fails question final in 40 % of runs of 89 tasks and in 19 % of 500",
        "but question ability in at most 3 %.",
        "10 points in 27 % of runs of 89 tasks, in 67 % with three attempts, in 93 % of 500 tasks.",
    ):
        assert said in text
    for row in (
        "| 89 tasks | equal | 60.2% | 39.8% | 1.7% |",
        "| 89 tasks, 3 attempts | equal | 74.7% | 25.2% | 2.6% |",
        "| 500 tasks | equal | 81.1% | 18.9% | 2.8% |",
        "| 89 tasks | -10 | 7.5% | 92.3% | 26.6% |",
        "| 89 tasks, 3 attempts | -10 | 1.0% | 98.9% | 67.1% |",
        "| 500 tasks | -10 | 0.0% | 100.0% | 93.1% |",
    ):
        assert row in page


def test_the_exit_code_of_the_program_changes_nothing(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    code = "import json, sys; print(json.load(sys.stdin)['verdict']); sys.exit(7)"
    done = streamer("gate", mine, "--against", baseline, "--json", "--on-verdict", on_verdict(code))
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "pass")
    assert done.stderr.splitlines() == [b"pass", b"--on-verdict ended with exit code 7"]


@pytest.mark.parametrize("broken", [0, 1])
def test_lines_that_cannot_be_read_leave_it_undecided(tmp_path: Path, broken: int) -> None:
    files = [written(tmp_path, run, run_of(run, agent, 18)) for run, agent in ("ra", "sb")]
    with files[broken].open("ab") as file:
        file.write(b'{"type": "trial_result", "run_id"\n')
    for command, begins in (
        (("gate", files[0], "--against", files[1]), "streamer: undecided: "),
        (("compare", *files, "--files", "--plain"), "streamer: "),
    ):
        done = streamer(*command)
        rejected, said = done.stderr.decode().splitlines()
        assert (done.returncode, done.stdout) == (3, b"")
        assert rejected.startswith("line 22: ")
        assert said.startswith(f"{begins}{files[broken]}: 1 of its lines could not be read")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_verdict_that_cannot_be_printed_is_no_failed_gate_and_still_reaches_the_program(
    tmp_path: Path, baseline: Path, options: list[str]
) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    code = "import json, pathlib, sys; pathlib.Path('got').write_text(json.load(sys.stdin)['verdict'])"
    argv = ["gate", mine, "--against", baseline, *options, "--on-verdict", on_verdict(code)]
    with Path("/dev/full").open("wb") as full:
        program = [*COMMAND, *map(str, argv)]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    assert "streamer: pass, but stdout cannot be written: No space left on device" in stderr_of(done, 3)
    assert (tmp_path / "got").read_text() == "pass"


# Values at the ends of the floats, as a broken harness may report them: every command has an answer.
LARGEST = 1.7976931348623157e308
EXTREMES = (0.0, 1.0, 5e-324, 1e154, 1e300, LARGEST)


def extreme_run(run_id: str, seed: int) -> list[Event]:
    """Twelve shuffled tasks of two agents; metrics of both signs, and some values missing."""
    rng = random.Random(f"{run_id} {seed}")
    tasks = [f"t{n}" for n in range(12)]
    plan = {"tasks": rng.sample(tasks, len(tasks)), "attempts": 1, "order_kind": "shuffled"}
    plan |= {"agent_models": ["a:x", "b:x"], "primary_metric": "metrics/m"}
    values = rng.sample(EXTREMES, 3)
    result = [a_plan(run_id=run_id, **plan)]
    for agent, task in itertools.product("ab", tasks):
        known: dict[str, Any] = {"cost_usd": rng.choice(values), "duration_seconds": rng.choice(values)}
        known |= {"metrics": {"m": rng.choice(values) * rng.choice([-1, 1])}, "resolved": rng.random() < 0.5}
        kept = {name: value for name, value in known.items() if rng.random() < 0.95}
        slot = {"run_id": run_id, "task_id": task, "agent": agent, "model": "x"}
        result.append(a_trial(**slot, **{"resolved": None} | kept))
    return [*result, ended(run_id) | {"revision": 1}]


@pytest.mark.parametrize("seed", range(4))
def test_values_at_the_ends_of_the_floats_have_answers_everywhere(seed: int, tmp_path: Path) -> None:
    a, b = (str(written(tmp_path, f"{name}.ndjson", extreme_run(name, seed))) for name in ("A", "B"))
    sides = ["--a-agent", "a:x", "--b-agent", "b:x"]
    commands = [
        ["fold", a],
        ["gate", a, "--race"],
        ["gate", a, "--race", "--against", f"{b}/a:x"],
        *(["report", "--from", a, "--format", format] for format in ("md", "html", "json")),
    ]
    for metric in ("metrics/m", "pass_rate", "cost_usd", "duration_seconds"):
        commands += [["compare", a, b, "--files", "--metric", metric, "--format", "html"]]
        commands += [["compare", a, a, *sides, "--files", "--metric", metric, "--json"]]
        commands += [["gate", f"{a}/a:x", "--against", f"{b}/a:x", "--metric", metric]]
    for metric in ("metrics/m", "total_cost", "mean_cost", "cost_of_pass", "mean_duration"):
        commands += [["why", "--from", a, "--metric", metric]]
    for arguments in commands:
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code in (0, 1, 3), (arguments, done.output)
        assert "internal error" not in done.output, (arguments, done.output)


def test_a_difference_beyond_the_floats_is_the_largest_one(tmp_path: Path) -> None:
    a, b = (
        written(tmp_path, name, [{**event, "metrics": {"m": value}} for event in ten(name, 5)])
        for name, value in (("A", -LARGEST), ("B", LARGEST))
    )
    done = streamer("compare", a, b, "--files", "--metric", "metrics/m", "--json")
    difference = json.loads(done.stdout)["differences"]["metrics/m"]
    assert difference["mean"] == LARGEST
    assert difference["b_better"] == 10
