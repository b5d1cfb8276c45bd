"""The history of tasks: shares, dead tasks, the order for a comparison, and the plan (inference 8b)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from streamer.schemas.summaries import RunSummary
from streamer.terminal import cli
from streamer.views.history import (
    PastRun,
    PastTrial,
    TaskHistory,
    dead_words,
    live_tasks,
    order_for_comparison,
    tasks_of,
)
from tests.support.builders import a_run_change
from tests.support.events import Event, a_plan, a_trial

Outcomes = dict[str, Sequence[bool]]


def past(run: str, agent: str, outcomes: Outcomes, started: int = 1) -> PastRun:
    """A run of one agent; a cost of one dollar and 60 seconds for each trial."""
    trials = [
        PastTrial(run, agent, task, task, passed, 1.0, 60.0)
        for task, attempts in outcomes.items()
        for passed in attempts
    ]
    change = a_run_change(run, started_at=f"2026-01-{started:02}T00:00:00Z")
    return PastRun(RunSummary.model_validate(change.summary), trials)


def of(runs: Iterable[PastRun]) -> dict[str, TaskHistory]:
    return {task.task: task for task in tasks_of(runs)}


def test_a_task_is_dead_where_all_agents_agree() -> None:
    """Nine agents that pass leave 1 - .05^(1/9) = 28.3 % for the next; one agent alone says nothing."""
    runs = [past(f"r{at}", f"a{at}:m", {"easy": [True], "open": [at > 0]}) for at in range(9)]
    tasks = of([*runs, past("r9", "a9:m", {"alone": [False]})])
    assert {task: one.dead for task, one in tasks.items()} == {"easy": "passed", "open": None, "alone": None}
    assert tasks["easy"].differs_at_most == pytest.approx(0.2831, abs=1e-4)
    assert tasks["open"].differs_at_most is None
    assert dead_words(list(tasks.values())) == (
        "1 of 3 tasks are dead: 1 always passed, 0 never. "
        "The next agent differs at such a task with a chance of at most 28% (95 %)"
    )


def test_each_agent_has_the_same_weight_however_often_it_ran() -> None:
    runs = [past(f"r{at}", "a:m", {"t": [True]}) for at in range(9)] + [past("s", "b:m", {"t": [False]})]
    task = of(runs)["t"]
    assert (task.attempts, task.passed, task.agents, task.runs, task.share) == (10, 9, 2, 10, 0.5)


def test_flips_count_agents_with_two_attempts_or_more() -> None:
    outcomes = {"a": [True, False], "b": [True, True], "c": [False]}
    tasks = of(past(f"r {agent}", f"{agent}:m", {"t": tried}) for agent, tried in outcomes.items())
    assert tasks["t"].flips == 0.5
    assert of([past("r", "a:m", {"t": [True]})])["t"].flips is None


def test_discrimination_compares_a_task_with_all_others() -> None:
    """`good` follows the other tasks, `bad` runs against them, and a dead task has none."""
    strength = {"a": [True] * 4, "b": [True, True, False, False], "c": [False] * 4}
    runs = [
        past(
            f"r {agent}",
            f"{agent}:m",
            {f"t{at}": [passed] for at, passed in enumerate(tried)}
            | {"good": [agent != "c"], "bad": [agent == "c"], "dead": [False]},
        )
        for agent, tried in strength.items()
    ]
    tasks = of(runs)
    assert tasks["good"].discrimination == pytest.approx(2 / 7**0.5)  # 1, 1, 0 against 4, 2, 1
    assert tasks["bad"].discrimination == pytest.approx(-24 / 684**0.5)  # 0, 0, 1 against 5, 3, 0
    assert tasks["dead"].discrimination is None
    assert of(runs[:2])["good"].discrimination is None


def test_the_first_run_that_changed_a_task_goes_by_its_start() -> None:
    runs = [
        past("late", "c:m", {"t": [True], "same": [True]}, started=9),
        past("first", "a:m", {"t": [False], "same": [True]}, started=1),
        past("second", "b:m", {"t": [False, True], "same": [True]}, started=5),
    ]
    assert of(runs)["t"].first_changed == "second"
    assert of(runs)["same"].first_changed is None


def test_live_tasks_and_unknown_ones_come_first_in_rounds() -> None:
    runs = [
        past(f"r{at}", f"a{at}:m", {"easy": [True], "hard": [False], "live": [at == 0], "half": [at < 2]})
        for at in range(4)
    ]
    names = ["easy", "hard", "live", "half", "new"]
    order = order_for_comparison(names, tasks_of(runs), 2, "seed")
    assert sorted(order) == sorted((name, attempt) for name in names for attempt in (1, 2))
    assert [{task for task, _ in order[at : at + 3]} for at in (0, 3)] == [{"live", "half", "new"}] * 2
    assert [attempt for _, attempt in order] == [1, 1, 1, 2, 2, 2, 1, 1, 2, 2]
    assert order != order_for_comparison(names, tasks_of(runs), 2, "other")


@pytest.mark.parametrize(("passed", "is_live"), [(0, False), (2, False), (3, True), (37, True), (38, False)])
def test_a_share_of_five_percent_is_not_live(passed: int, *, is_live: bool) -> None:
    """Two of 40 agents are 5 %: a live task has a share strictly between .05 and .95."""
    runs = [past(f"r{at}", f"a{at}:m", {"edge": [at < passed]}) for at in range(40)]
    assert live_tasks(tasks_of(runs), ["edge", "new"]) == ({"edge", "new"} if is_live else {"new"})


# -----------------------------------------------------------------------------
# The commands, on files.


def write(folder: Path, name: str, events: Iterable[Event]) -> str:
    file = folder / f"{name}.ndjson"
    file.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    return str(file)


def a_file(folder: Path, run: str, agent: str, outcomes: dict[str, bool], **fields: Any) -> str:
    trials = [
        a_trial(run_id=run, agent=agent, model="m", task_id=task, resolved=passed, cost_usd=0.5, **fields)
        for task, passed in outcomes.items()
    ]
    oracle = a_trial(run_id=run, agent="oracle", model="m", task_id="easy", resolved=False)
    return write(folder, run, [a_plan(run_id=run), *trials, oracle, {"type": "run_finished", "run_id": run}])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two runs: `easy` always passes, `hard` never, `live` once. A baseline fails the easy one (R4)."""
    outcomes = {"easy": True, "hard": False}
    return [
        a_file(tmp_path, "one", "a", outcomes | {"live": True}),
        a_file(tmp_path, "two", "b", outcomes | {"live": False}),
    ]


def call(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=text)


def histories(files: Iterable[str]) -> list[str]:
    return [word for file in files for word in ("--history", file)]


def test_the_tasks_of_files_are_listed_without_a_server(files: list[str]) -> None:
    said = call("query", "tasks", *histories(files), "--json")
    rows = {row["task"]: row for row in map(orjson.loads, said.stdout.splitlines())}
    assert {task: row["dead"] for task, row in rows.items()} == {
        "easy": "passed",
        "hard": "failed",
        "live": None,
    }
    assert (rows["live"]["share"], rows["live"]["first_changed"], rows["live"]["cost_usd"]) == (
        0.5,
        "two",
        0.5,
    )
    table = call("query", "tasks", *histories(files)).stdout
    assert "2 of 3 tasks are dead: 1 always passed, 1 never." in table
    [row] = call("query", "tasks", *histories(files), "--task", "live", "--json").stdout.splitlines()
    assert orjson.loads(row) == rows["live"]


def test_trials_without_a_verdict_say_nothing_of_a_task(tmp_path: Path) -> None:
    """R31: a scorer that gives numbers alone."""
    numbers = [a_trial(run_id="n", agent="a", model="m", task_id="t", resolved=None, metrics={"match": 0.5})]
    file = write(
        tmp_path, "n", [a_plan(run_id="n", verdicts=False, primary_metric="metrics/match"), *numbers]
    )
    said = call("query", "tasks", "--history", file)
    assert "No such task has a trial with a verdict." in said.stdout


def test_an_order_for_a_comparison_declares_what_it_was_made_of(files: list[str]) -> None:
    said = call(
        *("shuffle", "-", "--seed", "s", "--for-comparison", *histories(files), "--run-id", "new"),
        text="easy\nhard\nlive\n",
    )
    plan = orjson.loads(said.stdout)
    assert plan["order"][0] == "live"
    assert sorted(plan["tasks"]) == ["easy", "hard", "live"]
    assert {name: plan[name] for name in ("order_kind", "order_reason", "order_history")} == {
        "order_kind": "chosen",
        "order_reason": "history",
        "order_history": ["one", "two"],
    }
    assert "2 of 3 tasks are dead" in said.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shuffle", "-", "--seed", "s", "--for-comparison"], "--for-comparison and --history"),
        (["shuffle", "-", "--seed", "s", "--history", "FILE"], "--for-comparison and --history"),
        (
            ["shuffle", "--for", "inspect", "--seed", "s", "--for-comparison", "--history", "FILE"],
            "Inspect shuffles by itself",
        ),
        (["shuffle", "-", "--seed", "s", "--for-comparison", "--history", "FILE"], "has tried a task"),
        (["query", "tasks"], "Name either a benchmark or runs"),
        (["query", "tasks", "bench", "--history", "FILE"], "Name either a benchmark or runs"),
    ],
)
def test_what_cannot_be_asked_is_said(files: list[str], arguments: list[str], said: str) -> None:
    done = call(*(files[0] if one == "FILE" else one for one in arguments), text="unknown\n")
    assert done.exit_code == 2
    assert said in done.stderr
