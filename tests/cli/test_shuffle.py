"""`streamer shuffle`: the same seed gives the same order, in the form that a harness takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamer.cli.shuffle import command

TASKS = [f"org/t{number}" for number in range(20)]


def shuffle(*arguments: str, tasks: list[str] = TASKS) -> Result:
    return CliRunner().invoke(command, [*arguments, "-"], input="\n".join(tasks))


def test_every_task_comes_once_in_an_order_that_the_seed_decides() -> None:
    one, again, other = (shuffle("--seed", seed).output.split() for seed in ("a", "a", "b"))
    assert one == again != other
    assert sorted(one) == sorted(other) == sorted(TASKS)
    assert one != TASKS


def test_each_round_has_every_task_once_and_the_plan_says_so() -> None:
    plan = json.loads(shuffle("--seed", "a", "--attempts", "2", "--json").output)
    assert (plan["attempts"], plan["order_kind"], plan["tasks"]) == (
        2,
        "shuffled",
        [task for task, _ in plan["order"][:20]],
    )
    for attempt in (1, 2):
        round_ = plan["order"][20 * (attempt - 1) : 20 * attempt]
        assert {number for _, number in round_} == {attempt}
        assert sorted(task for task, _ in round_) == sorted(TASKS)


def test_harbor_gets_a_job_of_names_or_of_paths(tmp_path: Path) -> None:
    job = json.loads(shuffle("--seed", "a", "--for", "harbor").output)
    assert sorted(task["name"] for task in job["tasks"]) == sorted(TASKS)
    for name in ("one", "two", ".hidden"):
        (tmp_path / name).mkdir()
    done = CliRunner().invoke(command, ["--seed", "a", "--for", "harbor", str(tmp_path)])
    paths = [task["path"] for task in json.loads(done.output)["tasks"]]
    assert sorted(paths) == [str(tmp_path / "one"), str(tmp_path / "two")]


def test_inspect_gets_a_seed_above_zero_and_needs_no_tasks() -> None:
    done = CliRunner().invoke(command, ["--seed", "a", "--for", "inspect"])
    option, number = done.output.split()
    assert option == "--sample-shuffle"
    assert int(number) > 0


@pytest.mark.parametrize(
    ("arguments", "tasks", "says"),
    [
        (["--for", "terminal-bench"], TASKS, "sort tasks by their expected duration"),
        (["--for", "harbor", "--json"], TASKS, "exclude each other"),
        (["--for", "harbor"], ["alone"], "harbor cannot find 'alone'"),
        ([], [], "names no task"),
        ([], ["a", "b", "a"], "names 'a' more than once"),
    ],
)
def test_what_cannot_be_shuffled_is_wrong_use(arguments: list[str], tasks: list[str], says: str) -> None:
    done = shuffle("--seed", "a", *arguments, tasks=tasks)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
