"""`--by label:KEY`: a run broken down by a label of its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from streamer.folding.breakdowns import by_label
from streamer.schemas.wire import canonical_json
from streamer.terminal import cli
from tests.support.events import a_trial, folded

EVENTS = [
    a_trial(task_id="t1", labels={"language": "python"}, resolved=True, metrics={"reward": 0.5}),
    a_trial(task_id="t2", labels={"language": "\x1b[31mrust"}, resolved=False),
    a_trial(task_id="t3"),
]
LINES = b"\n".join(map(orjson.dumps, EVENTS))


def expected() -> list[dict[str, Any]]:
    pipeline, _ = folded(EVENTS)
    bodies: list[dict[str, Any]] = orjson.loads(
        canonical_json(by_label(pipeline.run("run-1").state, "language"))
    )
    return bodies


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments], input=LINES)


def test_fold_adds_the_groups_to_its_lines() -> None:
    done = call("fold", "--json", "--by", "label:language")
    lines = [orjson.loads(line) for line in done.stdout_bytes.splitlines()]
    assert [line for line in lines if line["type"] == "label_summary"] == expected()
    assert len(expected()) == 6


def test_fold_shows_them_as_a_table_whose_values_cannot_write_on_the_terminal() -> None:
    text = call("fold", "--by", "label:language").stdout
    table = text[text.index("By language") :]
    assert "python" in table
    assert "reward" in table
    assert "\x1b" not in text


def test_fold_says_which_labels_there_are() -> None:
    done = call("fold", "--by", "label:colour")
    assert done.exit_code == 0
    assert "no trial of run 'run-1' has a label 'colour'. Labels: 'language'." in done.stderr


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_a_report_has_the_groups(form: str, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(LINES)
    text = call("report", "--from", str(file), "--format", form, "--by", "label:language").stdout
    if form == "json":
        assert orjson.loads(text)["by_label"] == expected()
    else:
        assert "By language" in text
        assert "By language" not in call("report", "--from", str(file), "--format", form).stdout


def test_a_report_refuses_an_unknown_label(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(LINES)
    done = call("report", "--from", str(file), "--by", "label:colour")
    assert (done.exit_code, "Labels: 'language'" in done.stderr) == (2, True)


@pytest.mark.parametrize("by", ["moon", "label:", "label"])
@pytest.mark.parametrize("command", [["fold"], ["query", "run", "r"], ["report", "r"]])
def test_anything_else_is_a_usage_error(command: list[str], by: str) -> None:
    done = call(*command, "--by", by)
    assert (done.exit_code, "label:KEY" in done.stderr) == (2, True)
