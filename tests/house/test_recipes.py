"""CONTRIBUTING's recipes, each followed in a copy of the package: so many files are edited, and it works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.house import recipes
from tests.support.cli import streamer

CONNECTOR = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

WATCHED = """
from datetime import UTC, datetime
from streamer.terminal.boards import board_columns
from streamer.views.columns import AGENTS
print(*(column.head for column in board_columns(AGENTS, datetime.now(UTC))), sep="\\n")
"""
"""Prints the heads of a board of `streamer watch`."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return recipes.copied(tmp_path / "contributor")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Six trials of one agent at three tasks, all of one tier."""
    file = tmp_path / "events.jsonl"
    trial = {"type": "trial_result", "run_id": "nightly", "agent": "a", "model": "m", "tier": "T0"}
    trials = [trial | {"task_id": f"t{n % 3}", "attempt": n // 3 + 1, "resolved": n > 1} for n in range(6)]
    file.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in trials))
    return file


def followed(tree: Path, recipe: list[recipes.Step]) -> set[str]:
    before = recipes.python_files(tree)
    recipes.follow(tree, recipe)
    return recipes.touched(tree, before)


def printed(tree: Path, *command: object) -> str:
    done = streamer(*command, cwd=tree, environment=recipes.environment(tree))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def lines_of(text: str) -> list[Any]:
    return [orjson.loads(line) for line in text.splitlines()]


def test_a_field_of_a_summary_takes_two_files(tree: Path, events: Path, tmp_path: Path) -> None:
    changed = followed(tree, recipes.steps("Add a field to a summary"))
    assert changed == {"streamer/folding/summaries.py", "streamer/schemas/summaries.py"}
    summaries = {one["type"]: one for one in lines_of(printed(tree, "fold", "--json", events))}
    assert summaries["agent_model_summary"]["trials_per_task"] == 2.0
    assert summaries["tier_summary"]["trials_per_task"] == 2.0
    assert "trials_per_task" not in summaries["run_summary"]
    printed(tree, "schema", "--out", tmp_path)
    for kind in ("agent_model", "tier"):
        schema = json.loads((tmp_path / f"{kind}_summary.schema.json").read_bytes())
        assert schema["properties"]["trials_per_task"]["description"].startswith("Mean number of trials")
    read = (
        "from streamer.schemas.summaries import SUMMARY; print(SUMMARY.validate_json({!r}).trials_per_task)"
    )
    assert recipes.run_python(tree, read.format(json.dumps(summaries["tier_summary"]))) == "2.0\n"


def test_a_column_of_a_board_takes_one_file(tree: Path, events: Path) -> None:
    assert followed(tree, recipes.steps("Add a column to a board")) == {"streamer/views/columns.py"}
    lines = printed(tree, "fold", events).splitlines()
    [row] = [line for line in lines if line.startswith("a:m ")]
    assert row.endswith(" 3")
    assert any(line.startswith("agent:model ") and line.endswith(" tasks") for line in lines)
    report = printed(tree, "report", "--from", events, "--format", "md").splitlines()
    [head] = [line for line in report if line.startswith("| agent:model |") and line.endswith("| tasks |")]
    assert report[report.index(head) + 2].endswith("| 3 |")
    page = recipes.run_python(
        tree, "from streamer.views.columns import AGENTS; print(AGENTS.shown_on('page')[-1])"
    )
    assert page.startswith("Column(name='tasks', title='tasks', format='count'")
    assert recipes.run_python(tree, WATCHED).splitlines()[-1] == "tasks"


def test_a_command_takes_two_files(tree: Path, events: Path) -> None:
    changed = followed(tree, recipes.steps("Add a command"))
    assert changed == {"streamer/terminal/files.py", "streamer/terminal/__init__.py"}
    assert re.search(r"^ +count +Count events by their type\.$", printed(tree, "--help"), re.MULTILINE)
    assert "Count the events in FILE (or on stdin) by their type." in printed(tree, "count", "--help")
    assert re.search(r"^trial_result +6$", printed(tree, "count", events), re.MULTILINE)


@pytest.fixture
def tiny_run(tmp_path: Path) -> Path:
    run = tmp_path / "first"
    run.mkdir()
    (run / "plan.tiny").write_text("a b")
    (run / "results.tiny").write_text("a yes\nb no\n")
    return run


def test_a_harness_takes_one_new_file_and_its_registration(tree: Path, tiny_run: Path) -> None:
    """In a package of its own it takes no file of ours: `tests/sources/test_convert.py` installs that."""
    connector = CONNECTOR.search(recipes.section("Add a harness"))
    assert connector
    before = recipes.python_files(tree)
    (tree / "streamer/sources/tiny.py").write_text(connector[1])
    recipe = recipes.steps("Add a harness")
    recipes.follow(tree, recipe)
    assert recipes.touched(tree, before) == {"streamer/sources/tiny.py", "streamer/sources/convert.py"}
    assert sum(step.code.count("\n") for step in recipe) == 2
    for harness in ("tiny", "auto"):
        plan, *trials = lines_of(printed(tree, "convert", "--harness", harness, tiny_run))
        assert plan == {"type": "run_started", "run_id": "first", "harness": "tiny", "tasks": ["a", "b"]}
        assert {trial["task_id"]: trial["resolved"] for trial in trials} == {"a": True, "b": False}
