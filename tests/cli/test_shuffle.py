"""`streamer shuffle`: the same seed gives the same order, in each form that a harness takes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from streamer.schemas.events import EVENT, RunStarted
from tests.house.repository import ROOT
from tests.support.cli import streamer

TASKS = ("build-kernel", "fix-git", "play-zork", "train-model")
SHUFFLED = ["train-model", "build-kernel", "play-zork", "fix-git"]
"""As `hash_shuffled` has it with the seed "nightly"; docs/inference.md shows the same list."""

EXAMPLE = (ROOT / "docs" / "inference.md").read_text("utf-8").partition("**How to shuffle.**")[2]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.txt"
    path.write_text("\n".join(TASKS) + "\n\n")
    return path


def printed(*arguments: object, given: bytes = b"") -> str:
    done = streamer("shuffle", "--seed", "nightly", *arguments, stdin=given)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def refused(*arguments: object, given: bytes = b"") -> str:
    done = streamer("shuffle", "--seed", "nightly", *arguments, stdin=given)
    assert (done.returncode, done.stdout) == (2, b"")
    return done.stderr.decode()


def test_a_file_standard_input_and_a_directory_give_the_same_order(tasks: Path, tmp_path: Path) -> None:
    for task in (*TASKS, ".git"):
        (tmp_path / "tasks" / task).mkdir(parents=True)
    (tmp_path / "tasks" / "README.md").write_text("no task")
    assert printed(tasks).split() == SHUFFLED
    assert printed("-", given="\n".join(reversed(TASKS)).encode()).split() == SHUFFLED
    assert printed(tmp_path / "tasks").split() == SHUFFLED


def test_another_seed_gives_another_order(tasks: Path) -> None:
    orders = {streamer("shuffle", tasks, "--seed", seed).stdout for seed in range(8)}
    assert len(orders) > 4
    assert {tuple(sorted(order.decode().split())) for order in orders} == {TASKS}


def test_attempts_are_rounds_and_each_is_shuffled_for_itself(tasks: Path) -> None:
    listed = printed(tasks, "--attempts", 3).split()
    rounds = [listed[start : start + 4] for start in (0, 4, 8)]
    assert rounds[0] == SHUFFLED
    assert all(sorted(tasks) == list(TASKS) for tasks in rounds)
    assert len({tuple(tasks) for tasks in rounds}) == 3


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_plan_that_is_printed_is_one_that_a_run_can_publish(tasks: Path, attempts: int) -> None:
    plan = json.loads(printed(tasks, "--attempts", attempts, "--json"))
    listed = printed(tasks, "--attempts", attempts).split()
    event = EVENT.validate_json(json.dumps({"type": "run_started", "run_id": "r", **plan}))
    assert isinstance(event, RunStarted)
    assert (event.attempts, event.order_kind) == (attempts, "shuffled")
    assert event.tasks == SHUFFLED
    assert [one if isinstance(one, str) else one[0] for one in event.order or ()] == listed
    if attempts > 1:
        assert {tuple(one) for one in plan["order"]} == {(t, n) for t in TASKS for n in (1, 2, 3)}


def test_harbor_gets_a_job_configuration(tmp_path: Path) -> None:
    for task in TASKS:
        (tmp_path / "tasks" / task).mkdir(parents=True)
    job = json.loads(printed(tmp_path / "tasks", "--for", "harbor", "--attempts", 2))
    assert [Path(task["path"]).name for task in job["tasks"]][:4] == SHUFFLED
    assert {Path(task["path"]).parent for task in job["tasks"]} == {tmp_path / "tasks"}
    assert len(job["tasks"]) == 8
    named = json.loads(printed("-", "--for", "harbor", given=b"acme/x\nacme/y\n"))
    assert sorted(task["name"] for task in named["tasks"]) == ["acme/x", "acme/y"]
    assert "harbor cannot find 'train-model'" in refused("-", "--for", "harbor", given=b"train-model\n")


def test_inspect_shuffles_by_itself_with_a_number_of_the_seed() -> None:
    option = printed("--for", "inspect")
    assert re.fullmatch(r"--sample-shuffle [1-9][0-9]*\n", option)
    assert printed("--for", "inspect") == option
    assert streamer("shuffle", "--seed", "other", "--for", "inspect").stdout.decode() != option


def test_terminal_bench_can_be_given_no_order(tasks: Path) -> None:
    assert "sort tasks by their expected duration" in refused(tasks, "--for", "terminal-bench")


@pytest.mark.parametrize(
    ("arguments", "given", "why"),
    [
        ([], b"", "TASKS is missing: a file, a directory, or - for standard input"),
        (["-"], b"\n", "- names no task; write one task a line"),
        (["-"], b"a\nb\na\n", "names 'a' more than once. Name each task once; --attempts N repeats them"),
        (["-", "--attempts", "0"], b"a", "0 is not in the range"),
        (["-", "--json", "--for", "harbor"], b"a/b", "--json and --for exclude each other"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], given: bytes, why: str) -> None:
    assert why in refused(*arguments, given=given)


def test_the_example_of_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    """Each line that begins with `$` of the shell blocks in "How to shuffle", without the tail."""
    blocks = re.findall(r"^```text\n(\$.*?)^```", EXAMPLE, re.DOTALL | re.MULTILINE)
    (tmp_path / "tasks.txt").write_text("\n".join(TASKS) + "\n")
    assert blocks
    for block in blocks:
        command, _, shown = block.partition("\n")
        words = shlex.split(command.removeprefix("$ streamer "))
        assert streamer(*words, cwd=tmp_path).stdout.decode() == shown
