"""`streamer compare`: pairs, counts, and an exit code that CI can rest on."""

from __future__ import annotations

import asyncio
import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from tests.support.cli import streamer
from tests.support.events import a_plan, a_trial
from tests.web.feeding import Feed
from tests.web.serving import Serving

run_command = partial(asyncio.to_thread, streamer)
TASKS = 10


def events(run: str, passed: int, **fields: Any) -> list[dict[str, Any]]:
    """Ten tasks, of which the first so many are passed."""
    return [a_trial(run_id=run, task_id=f"t{n:02}", resolved=n < passed, **fields) for n in range(TASKS)]


def written(folder: Path, name: str, found: list[dict[str, Any]]) -> Path:
    file = folder / name
    file.write_text("\n".join(map(json.dumps, found)))
    return file


@pytest.mark.parametrize(
    ("passed", "options", "code", "said"),
    [
        (8, [], 0, "not worse"),
        (9, [], 0, "not worse"),
        (7, [], 1, "is worse"),
        (7, ["--tolerance", "0.1"], 0, "not worse"),
        (6, ["--tolerance", "0.1"], 1, "is worse"),
        (7, ["--significance", "0.05"], 0, "not significantly"),
        (0, ["--significance", "0.05"], 1, "is worse"),
        (7, ["--metric", "cost_usd"], 1, "is worse"),
        (7, ["--metric", "cost_usd", "--tolerance", "0.5"], 0, "not worse"),
        (7, ["--metric", "task_speedup"], 3, "no task where both sides know task_speedup"),
    ],
)
def test_the_exit_code_says_whether_b_is_worse(
    tmp_path: Path, passed: int, options: list[str], code: int, said: str
) -> None:
    a = written(tmp_path, "a", events("r", 8, cost_usd=1.0))
    b = written(tmp_path, "b", events("s", passed, cost_usd=1.5))
    done = streamer("compare", a, b, "--files", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert said.encode() in done.stderr
    assert b"10 tasks in common: passed by both" in done.stdout


def test_two_agents_of_one_run_are_compared_and_baselines_left_out(tmp_path: Path) -> None:
    found = events("r", 8) + events("r", 3, agent="other") + events("r", 10, agent="oracle", model="oracle")
    file = written(tmp_path, "a", found)
    agents = ["--a-agent", "terminus:gpt-5", "--b-agent", "other:gpt-5"]
    done = streamer("compare", file, file, "--files", *agents, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["both_passed"], told["only_a"], told["neither"]) == (1, 3, 5, 2)
    assert told["differences"]["pass_rate"]["p_value"] == 0.0625
    everybody = json.loads(streamer("compare", file, file, "--files", "--json").stdout)
    assert everybody["a"]["trials"] == 2 * TASKS


def whole_and_begun() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A run that is over, and one that began later and has eight of ten results."""
    order = [f"t{n:02}" for n in range(TASKS)]
    plan = {"type": "run_started", "tasks": order, "attempts": 1, "order": order, "order_kind": "shuffled"}
    whole = [plan | {"run_id": "r", "started_at": "2026-01-01T00:00:00Z"}, *events("r", 10, cost_usd=0.3)]
    begun = [plan | {"run_id": "s", "started_at": "2026-01-02T00:00:00Z"}, *events("s", 0, cost_usd=0.1)[:8]]
    return whole, begun


AHEAD = "terminus:gpt-5 of r ahead of terminus:gpt-5 of s in the final pass rate: ["


async def test_runs_are_compared_as_the_page_and_the_files_of_their_events_are(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    whole, begun = whole_and_begun()
    await feed.take(whole + begun)
    files = written(tmp_path, "a", whole), written(tmp_path, "b", begun), "--files"
    for form in ("text", "json"):
        options = ("--format", form, "--limit", 100)
        done = await run_command("compare", "r", "s", *options, environment=environment)
        assert done.returncode == 1, done.stderr
        of_files = await run_command("compare", *files, *options)
        assert (done.stdout, done.stderr) == (of_files.stdout, of_files.stderr)
        assert AHEAD.encode() in done.stdout
    done = await run_command("compare", "r", "s", "--json", "--limit", 100, environment=environment)
    with Serving(settings) as serving:
        answer = await asyncio.to_thread(serving.get, "/api/compare?a=r&b=s")
    assert json.loads(done.stdout) == answer.json()


async def test_while_one_run_goes_on_page_and_command_say_the_same_of_its_order(
    feed: Feed, settings: Settings, environment: dict[str, str]
) -> None:
    tasks = [f"t{n:02}" for n in range(TASKS)]
    plan = {"tasks": tasks, "attempts": 1, "order": tasks, "order_kind": "shuffled"}
    first = [a_plan(run_id="r", started_at="2026-01-01T00:00:00Z", **plan), *events("r", TASKS)]
    second = [a_plan(run_id="s", started_at="2026-01-02T00:00:00Z", **plan), *events("s", 0)[:8]]
    await feed.take(first + second)
    done = await run_command("compare", "r", "s", "--json", "--limit", 100, environment=environment)
    with Serving(settings) as serving:
        answer = await asyncio.to_thread(serving.get, "/api/compare?a=r&b=s")
    told = answer.json()
    assert json.loads(done.stdout) == told
    r, s = (f"terminus:gpt-5 of {run}" for run in "rs")
    assert told["words"][0].startswith(f"{r} ahead of {s} in the final pass rate: [")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["a", "absent", "--files"], 2, "no file absent"),
        (["a", "a", "--a-run", "r"], 2, "belong to --files"),
        (["a", "a", "--files", "--a-agent", "termnus:gpt-5"], 3, "Did you mean terminus:gpt-5?"),
        (["a", "a", "--files", "--b-run", "x"], 3, "no run 'x'. It holds 1: r. --a-run RUN and --b-run"),
        (
            ["a", "empty", "--files"],
            3,
            "holds no run. `streamer fold` says what is wrong with its lines\n",
        ),
        (["r", "s", "--redis", "redis://127.0.0.1:1"], 3, "does not answer"),
        (
            ["a", "s", "--redis", "redis://127.0.0.1:1"],
            3,
            ". There is a file of that name: --files reads",
        ),
        (["a", "other", "--files"], 3, "no task where both sides know pass_rate"),
    ],
)
def test_what_cannot_be_compared_never_looks_like_a_verdict(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "empty").touch()
    written(tmp_path, "a", events("r", 8))
    written(tmp_path, "other", [a_trial(task_id="elsewhere")])
    done = streamer("compare", *arguments, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert said.encode() in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "damaged", "--files"], b"damaged"),
        (["a", "b", "--files", "--out", "missing/dir/x.md"], b"missing/dir"),
        (["a", "b", "--files", "--out", "missing/dir/x.html"], b"missing/dir"),
    ],
)
def test_errors_of_input_and_output_never_look_like_a_verdict(
    tmp_path: Path, arguments: list[str], said: bytes
) -> None:
    """B is worse; nobody is told so by the exit code of an error."""
    a = written(tmp_path, "a", events("r", 8))
    written(tmp_path, "b", events("s", 1))
    packed = gzip.compress(a.read_bytes())
    (tmp_path / "damaged").write_bytes(packed[: len(packed) // 2])
    done = streamer("compare", *arguments, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), done.stderr
    assert said in done.stderr


def test_what_may_be_said_what_flipped_and_what_is_not_common_is_told(tmp_path: Path) -> None:
    plan = {"type": "run_started", "tasks": TASKS, "attempts": 1}
    first = [plan | {"run_id": "r"}, *events("r", 8, agent="old", model="m")]
    second = [plan | {"run_id": "s", "tasks": 11}, *events("s", 1, agent="new", model="m")]
    second.append(a_trial(run_id="s", task_id="extra", agent="new", model="m"))
    sides = written(tmp_path, "a", first), written(tmp_path, "b", second)
    text = streamer("compare", *sides, "--files", environment={"COLUMNS": "80"}).stdout.decode()
    assert max(map(len, text.partition("\n\n")[2].splitlines())) <= 80
    assert "old:m of r ahead on tasks like these: sign test p = 0.0156" in text
    assert "old:m of r minus new:m of s: +70.0 points [" in text
    flips, not_common = (
        line.split() for line in text.splitlines() if line.startswith(("A alone", "B  ")) and ":" not in line
    )
    assert (flips, not_common) == (["A", "alone", "7"], ["B", "1"])
    assert "\nA alone: t01, t02, t03, t04, t05, t06, t07\n" in text
    assert "\nB: extra\n" in text
    as_json = streamer("compare", tmp_path / "a", tmp_path / "b", "--files", "--json", "--limit", "2")
    found = json.loads(as_json.stdout)
    assert (found["only_a_tasks"], found["only_b_tasks"]) == (["t01", "t02"], [])
    assert (found["not_in_a"], found["not_in_b"], len(found["words"])) == (["extra"], [], 2)


def test_two_agents_of_a_running_run_have_the_words_of_their_pair(tmp_path: Path) -> None:
    order = [f"t{n:02}" for n in range(TASKS)]
    plan = {"type": "run_started", "run_id": "r", "tasks": order, "attempts": 1, "order": order}
    running = [*events("r", 9, agent="x")[:9], *events("r", 0, agent="y")[:9]]
    file = written(tmp_path, "a", [plan | {"order_kind": "shuffled"}, *running])
    agents = ("--a-agent", "y:gpt-5", "--b-agent", "x:gpt-5")
    text = streamer("compare", file, file, "--files", *agents).stdout.decode()
    assert "x:gpt-5 can no longer be overtaken by y:gpt-5, unless results are corrected" in text
    assert "x:gpt-5 ahead in this run's final pass rate: +100.0 points so far" in text


HOSTILE = "<img src=x onerror=alert(1)>|`*_\u202e"


def test_markdown_and_html_are_files_in_which_hostile_names_are_text(tmp_path: Path) -> None:
    a = written(tmp_path, "a", events("r", 8, agent=HOSTILE, tier=HOSTILE, metrics={"wait": 1.5}))
    b = written(tmp_path, "b", events("s", 2, agent="new", tier=HOSTILE, metrics={"wait": 2.5}))
    told = [
        streamer("compare", a, b, "--files", "--out", tmp_path / f"c.{ending}") for ending in ("md", "html")
    ]
    assert [done.returncode for done in told] == [1, 1]
    markdown, html = ((tmp_path / f"c.{ending}").read_text() for ending in ("md", "html"))
    for content in (markdown, html):
        assert "<img" not in content
        assert "\u202e" not in content
        assert "Tasks that one side alone passes" in content
        assert "wait" in content
    assert "\n| <code>wait</code> | 1.5" in markdown
    assert "Content-Security-Policy" in html


def test_a_named_metric_decides(tmp_path: Path) -> None:
    plan = {"type": "run_started", "run_id": "r", "tasks": TASKS, "attempts": 1}
    plan |= {"metrics": {"wait": {"direction": "lower", "unit": "seconds"}}}
    a = written(tmp_path, "a", [plan, *events("r", 8, metrics={"wait": 1.5})])
    b = written(tmp_path, "b", [plan | {"run_id": "s"}, *events("s", 8, metrics={"wait": 2.5})])
    slower = streamer("compare", a, b, "--files", "--metric", "metrics/wait")
    assert slower.returncode == 1
    assert b"metrics/wait of B minus that of A: +1 s [1 s, 1 s], p = 0.00195" in slower.stderr
    assert streamer("compare", b, a, "--files", "--metric", "metrics/wait").returncode == 0
    unknown = streamer("compare", a, b, "--files", "--metric", "metrics/other")
    assert (unknown.returncode, b"both sides know metrics/other" in unknown.stderr) == (3, True)
    wrong = streamer("compare", a, b, "--files", "--metric", "beauty")
    assert (wrong.returncode, b"pass_rate" in wrong.stderr) == (2, True)


def test_without_equal_attempts_there_is_no_p_and_significance_gives_no_verdict(tmp_path: Path) -> None:
    again = [one | {"attempt": 2} for one in events("s", 0)]
    a, b = written(tmp_path, "a", events("r", 10)), written(tmp_path, "b", [*events("s", 0), *again])
    done = streamer("compare", a, b, "--files")
    [heads] = [line for line in done.stdout.decode().splitlines() if line.startswith("mean over tasks")]
    assert heads.split()[-1] == "equal", "there is no column p"
    assert "Without p: no task that differs has equal attempts" in done.stdout.decode()
    assert (done.returncode, b"no p: no task that differs" in done.stderr) == (1, True)
    assert "95 %, about" not in done.stdout.decode(), "without a plan or an end no sentence has an interval"
    tested = streamer("compare", a, b, "--files", "--significance", "0.05")
    assert (tested.returncode, b"cannot be tested" in tested.stderr) == (3, True)


def test_a_run_whose_id_no_file_can_have_is_no_verdict() -> None:
    done = streamer("compare", "r" * 300, "s", "--redis", "redis://127.0.0.1:1")
    assert (done.returncode, b"does not answer" in done.stderr) == (3, True)


def test_while_results_are_missing_there_are_no_intervals(tmp_path: Path) -> None:
    plan = {"type": "run_started", "tasks": TASKS + 1, "attempts": 1}
    a = written(tmp_path, "a", [plan | {"run_id": "r"}, *events("r", 8)])
    b = written(tmp_path, "b", [plan | {"run_id": "s"}, *events("s", 2)])
    text = streamer("compare", a, b, "--files").stdout.decode()
    assert "Results or verdicts are missing: there are no intervals" in text
    assert "95 %" not in text
    found = json.loads(streamer("compare", a, b, "--files", "--json").stdout)
    assert (found["ended"], found["differences"]["pass_rate"]["interval"]) == (False, None)


def test_a_file_of_several_runs_needs_a_choice_that_the_error_names(tmp_path: Path) -> None:
    file = written(tmp_path, "both", [*events("r", 8), *events("s", 2)])
    done = streamer("compare", file, file, "--files")
    assert (done.returncode, b"--a-run RUN and --b-run RUN choose" in done.stderr) == (3, True)


def test_an_unknown_ending_is_no_markdown(tmp_path: Path) -> None:
    file, pdf = written(tmp_path, "a", events("r", 8)), tmp_path / "c.pdf"
    for command in (("compare", file, file, "--files"), ("report", "--from", file)):
        done = streamer(*command, "--out", pdf)
        assert (done.returncode, b".pdf is no format" in done.stderr, pdf.exists()) == (2, True, False)


def test_text_is_not_written_to_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a", events("r", 8))
    done = streamer("compare", file, file, "--files", "--format", "text", "--out", tmp_path / "x")
    assert (done.returncode, b"choose md, html or json" in done.stderr) == (2, True)


def test_two_files_tell_the_final_difference_in_the_order_of_the_later_run(tmp_path: Path) -> None:
    whole, begun = whole_and_begun()
    a, b = written(tmp_path, "a", whole), written(tmp_path, "b", begun)
    text = streamer("compare", a, b, "--files").stdout.decode()
    assert AHEAD in text
    assert "points in the end; 95 %, however often you look" in text
