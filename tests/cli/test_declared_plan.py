"""What the user declares of a plan: only its fields, only what fits, and the option comes first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from streamer.terminal.harness import declared_plan


def a_file(folder: Path, content: Any) -> Path:
    file = folder / "plan.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_nothing_declared_is_nothing() -> None:
    assert declared_plan(None, None) == {}


def test_the_option_stands_over_the_file(tmp_path: Path) -> None:
    file = a_file(tmp_path, {"tasks": ["b", "a"], "order_kind": "chosen"})
    assert declared_plan(file, None) == {"tasks": ["b", "a"], "order_kind": "chosen"}
    assert declared_plan(file, "shuffled") == {"tasks": ["b", "a"], "order_kind": "shuffled"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "plan.json: "),
        ([], "plan.json: "),
        ({"taks": ["a"]}, "'taks' is no field of a plan"),
        ({"run_id": "r"}, "'run_id' is no field of a plan"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_file_that_is_no_plan_is_wrong_use(tmp_path: Path, content: Any, says: str) -> None:
    with pytest.raises(click.UsageError) as told:
        declared_plan(a_file(tmp_path, content), None)
    assert says in str(told.value)
