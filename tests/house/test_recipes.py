"""CONTRIBUTING's recipes, each followed in a copy of the package: so many files are edited, and it works."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import shutil
import sys
import textwrap
import urllib.request
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from redis import Redis

from streamer.storage.entries import Keys
from tests.house.repository import ROOT, ran
from tests.support.cli import streamer
from tests.support.worker_process import wait_for
from tests.terminal.test_tail import up

PAGE = ROOT / "CONTRIBUTING.md"
STEP = re.compile(
    r"^\d+\. In `([\w/]+\.py)`.*?at the end of (?:`(\w+)`|the (\w+)).*?^   ```python\n(.*?)^   ```",
    re.DOTALL | re.MULTILINE,
)
MODULE, IMPORTS = "module", "imports"
"""Places of a file that have no name of their own."""
CONNECTOR = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

WATCHED = """
from datetime import UTC, datetime
from streamer.terminal.boards import board_columns
from streamer.views.columns import AGENTS
print(*(column.head for column in board_columns(AGENTS, datetime.now(UTC))), sep="\\n")
"""
"""Prints the heads of a board of `streamer watch`."""


class Step(NamedTuple):
    """One step of a recipe: `code` goes to the end of `place`, in the file at `path`.

    `place` is a class, a function that returns a dict, or a tuple, list or dict of that name; or MODULE or
    IMPORTS.
    """

    path: str
    place: str
    code: str


def section(title: str) -> str:
    _, result, rest = PAGE.read_text("utf-8").partition(f"\n## {title}\n")
    assert result, f"CONTRIBUTING.md has no section `{title}`"
    return rest.partition("\n## ")[0]


def steps(title: str) -> list[Step]:
    """The steps of the recipe; every indented python block belongs to one."""
    text = section(title)
    found = STEP.findall(text)
    result = [Step(path, name or place, textwrap.dedent(code)) for path, name, place, code in found]
    assert len(result) == text.count("\n   ```python"), "a block without file and place"
    assert result, f"no step in section `{title}`"
    return result


def copied(tree: Path, names: Iterable[str] = ("streamer",)) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "data", "recorded")
    for name in names:
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    return tree


def follow(tree: Path, recipe: Iterable[Step]) -> None:
    for step in recipe:
        file = tree / step.path
        file.write_text(with_code(file.read_text("utf-8"), step), encoding="utf-8")


def with_code(source: str, step: Step) -> str:
    body = ast.parse(source).body
    if step.place == MODULE:
        return f"{source}\n\n{step.code}"
    if step.place == IMPORTS:
        last = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)][-1]
        column, line = last.col_offset, last.end_lineno
    else:
        [node] = [node for node in body if step.place in names_of(node)]
        column, line = _end_of(node)
    lines = source.splitlines(keepends=True)
    lines.insert(line or 0, textwrap.indent(step.code, " " * column))
    return "".join(lines)


def _end_of(node: Any) -> tuple[int, int]:
    """Column and line of the last part of a class, or of a tuple, list or dict, assigned or returned."""
    if isinstance(node, ast.ClassDef):
        return node.body[-1].col_offset, node.body[-1].end_lineno or 0
    value = node.body[-1].value if isinstance(node, ast.FunctionDef) else node.value
    stored: Any = next(part for part in ast.walk(value) if isinstance(part, ast.Tuple | ast.List | ast.Dict))
    if isinstance(stored, ast.Dict):
        return (stored.keys[-1] or stored.values[-1]).col_offset, stored.values[-1].end_lineno or 0
    return stored.elts[-1].col_offset, stored.elts[-1].end_lineno


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def python_files(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in (tree / "streamer").rglob("*.py")}


def touched(tree: Path, before: Mapping[str, bytes]) -> set[str]:
    after = python_files(tree)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def environment(tree: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(tree)}


def run_python(tree: Path, program: str) -> str:
    return ran(sys.executable, "-c", program, cwd=tree, env=os.environ | environment(tree)).stdout


def run_make(tree: Path, command: list[str]) -> None:
    """Run a `make` command in the copy, with the interpreter of this test and nothing installed."""
    program = [*command, "STAMP=", f"BIN={Path(sys.executable).parent}"]
    ran(*program, cwd=tree, env=os.environ | environment(tree))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copied(tmp_path / "contributor")


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Six trials of one agent at three tasks, all of one tier."""
    file = tmp_path / "events.jsonl"
    trial = {"type": "trial_result", "run_id": "nightly", "agent": "a", "model": "m", "tier": "T0"}
    trials = [trial | {"task_id": f"t{n % 3}", "attempt": n // 3 + 1, "resolved": n > 1} for n in range(6)]
    file.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in trials))
    return file


def followed(tree: Path, recipe: list[Step]) -> set[str]:
    before = python_files(tree)
    follow(tree, recipe)
    return touched(tree, before)


def printed(tree: Path, *command: object, places: Mapping[str, str] = {}) -> str:
    done = streamer(*command, cwd=tree, environment=environment(tree) | dict(places))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def lines_of(text: str) -> list[Any]:
    return [orjson.loads(line) for line in text.splitlines()]


def test_a_field_of_a_summary_takes_two_files(tree: Path, events: Path, tmp_path: Path) -> None:
    changed = followed(tree, steps("Add a field to a summary"))
    assert changed == {"streamer/folding/summaries.py", "streamer/schemas/summaries.py"}
    summaries = {one["type"]: one for one in lines_of(printed(tree, "fold", "--json", events))}
    assert "trials_per_task" not in summaries["run_summary"]
    printed(tree, "schema", "--out", tmp_path)
    for kind in ("agent_model", "tier"):
        assert summaries[f"{kind}_summary"]["trials_per_task"] == 2.0
        schema = json.loads((tmp_path / f"{kind}_summary.schema.json").read_bytes())
        assert schema["properties"]["trials_per_task"]["description"].startswith("Mean number of trials")
    read = "from streamer.schemas import summaries as s; print(s.SUMMARY.validate_json({!r}).trials_per_task)"
    assert run_python(tree, read.format(json.dumps(summaries["tier_summary"]))) == "2.0\n"


def test_a_column_of_a_board_takes_one_file(tree: Path, events: Path) -> None:
    assert followed(tree, steps("Add a column to a board")) == {"streamer/views/columns.py"}
    lines = printed(tree, "fold", events).splitlines()
    [row] = [line for line in lines if line.startswith("a:m ")]
    assert row.endswith(" 3")
    assert any(line.startswith("agent:model ") and line.endswith(" tasks") for line in lines)
    report = printed(tree, "report", "--from", events, "--format", "md").splitlines()
    [head] = [line for line in report if line.startswith("| agent:model |") and line.endswith("| tasks |")]
    assert report[report.index(head) + 2].endswith("| 3 |")
    last = "from streamer.views.columns import AGENTS; print(AGENTS.shown_on('page')[-1])"
    page = run_python(tree, last)
    assert page.startswith("Column(name='tasks', title='tasks', format='count'")
    assert run_python(tree, WATCHED).splitlines()[-1] == "tasks"


def test_a_command_takes_two_files(tree: Path, events: Path) -> None:
    changed = followed(tree, steps("Add a command"))
    assert changed == {"streamer/terminal/files.py", "streamer/terminal/__init__.py"}
    assert re.search(r"^ +count +Count events by their type\.$", printed(tree, "--help"), re.MULTILINE)
    assert "Count the events in FILE (or on stdin) by their type." in printed(tree, "count", "--help")
    assert re.search(r"^trial_result +6$", printed(tree, "count", events), re.MULTILINE)


def test_a_harness_takes_one_new_file_and_its_registration(tree: Path, tmp_path: Path) -> None:
    """In a package of its own it takes no file of ours: `tests/sources/test_convert.py` installs that."""
    (run := tmp_path / "first").mkdir()
    (run / "plan.tiny").write_text("a b")
    (run / "results.tiny").write_text("a yes\nb no\n")
    connector = CONNECTOR.search(section("Add a harness"))
    assert connector
    before = python_files(tree)
    (tree / "streamer/sources/tiny.py").write_text(connector[1])
    recipe = steps("Add a harness")
    follow(tree, recipe)
    assert touched(tree, before) == {"streamer/sources/tiny.py", "streamer/sources/convert.py"}
    assert sum(step.code.count("\n") for step in recipe) == 2
    for harness in ("tiny", "auto"):
        plan, *trials = lines_of(printed(tree, "convert", "--harness", harness, run))
        assert plan == {"type": "run_started", "run_id": "first", "harness": "tiny", "tasks": ["a", "b"]}
        assert {trial["task_id"]: trial["resolved"] for trial in trials} == {"a": True, "b": False}


METRIC, BOARD, RUN, AGENT = "retries", "mean_retries", "nightly", "a:m"
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
PUBLISH = """
import sys, orjson
from streamer.client import TrialPublisher
with TrialPublisher() as publisher:
    for line in sys.stdin.buffer:
        event = orjson.loads(line)
        del event["type"]
        publisher.trial(**event)
"""
"""Publishes events as a harness does, by the arguments of `TrialPublisher.trial`."""


@pytest.fixture(scope="module")
def with_the_metric(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = copied(tmp_path_factory.mktemp("contributor"), ("streamer", "schemas", "tests", "docs"))
    shutil.copy(ROOT / "Makefile", tree)
    before, recipe = python_files(tree), steps("Add a metric")
    follow(tree, recipe)
    for command in COMMANDS.findall(section("Add a metric")):
        run_make(tree, command.split())
    changed = touched(tree, before)
    assert changed >= {step.path for step in recipe}
    assert len(changed) <= 4, changed
    imported = run_python(tree, "import streamer; print(streamer.__file__)")
    assert Path(imported.strip()).is_relative_to(tree)
    return tree


@pytest.fixture
def metric_tree(with_the_metric: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of these tests start in the copy, which Python then imports from."""
    monkeypatch.chdir(with_the_metric)
    return with_the_metric


def trials(count: int) -> bytes:
    """Trials of one agent, one JSON object per line; every seventh does not know its retries."""
    common = {"type": "trial_result", "run_id": RUN, "agent": "a", "model": "m", "cost_usd": 0.25}
    listed = [common | {"task_id": f"t{n}", "resolved": n % 2 == 0} for n in range(count)]
    known = [{METRIC: n % 5} if n % 7 != 6 else {} for n in range(count)]
    return b"".join(orjson.dumps(one | more) + b"\n" for one, more in zip(listed, known, strict=True))


def known_retries(count: int) -> list[int]:
    return [number % 5 for number in range(count) if number % 7 != 6]


def assert_summary_has_it(summary: Mapping[str, Any], count: int) -> None:
    values = known_retries(count)
    statistics = summary["statistics"][METRIC]
    assert statistics["count"] == summary["coverage"][METRIC] == len(values)
    assert statistics["mean"] == pytest.approx(sum(values) / len(values), rel=1e-15)
    assert (statistics["min"], statistics["max"]) == (min(values), max(values))


def assert_report_has_it(content: str, count: int) -> None:
    rows = list(csv.DictReader(io.StringIO(content.removeprefix("\ufeff"))))
    assert len(rows) == count
    assert sorted(int(row[METRIC]) for row in rows if row[METRIC]) == sorted(known_retries(count))


@pytest.mark.parametrize("count", [2, 200])
def test_a_file_is_folded_with_the_metric(metric_tree: Path, tmp_path: Path, count: int) -> None:
    (file := tmp_path / "events.jsonl").write_bytes(trials(count))
    summaries = lines_of(printed(metric_tree, "fold", "--json", file))
    [agent] = [one for one in summaries if one["type"] == "agent_model_summary"]
    assert_summary_has_it(agent, count)
    assert_report_has_it(printed(metric_tree, "report", "--from", file, "--format", "csv"), count)


@pytest.mark.slow
@pytest.mark.in_turn(2)
def test_the_running_stack_has_the_metric(metric_tree: Path, tmp_path: Path) -> None:
    """Broker, worker, Redis and page of the copy: 2 trials first, then 200."""
    here = environment(metric_tree) | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}

    def asked(*command: object) -> list[Any]:
        return lines_of(printed(metric_tree, "query", *command, "--json", places=here))

    def are_in(count: int) -> bool:
        done = streamer("query", "run", RUN, "--json", environment=here)
        counted = [one["trials"] for one in lines_of(done.stdout.decode())]
        return counted == [count] and len(asked("trials", RUN)) == count

    with up(tmp_path, **environment(metric_tree)) as (_, log):
        [page] = re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())
        result = orjson.loads((tmp_path / "running.json").read_bytes())
        board = Keys(result["namespace"]).board(RUN, BOARD)
        for count in (2, 200):
            values = known_retries(count)
            mean = pytest.approx(sum(values) / len(values), rel=1e-15)
            events = trials(count).decode()
            ran(sys.executable, "-c", PUBLISH, cwd=metric_tree, input=events, env=clean | here)
            wait_for(partial(are_in, count), f"{count} trials are in", seconds=90)
            [agent] = asked("agents", RUN)
            assert_summary_has_it(agent, count)
            stored = [trial[METRIC] for trial in asked("trials", RUN)]
            assert sorted(one for one in stored if one is not None) == sorted(values)
            with Redis.from_url(result["redis"]) as redis:
                assert redis.zscore(board, AGENT) == mean
            assert_report_has_it(printed(metric_tree, "report", RUN, "--format", "csv", places=here), count)
            with urllib.request.urlopen(f"{page}/api/leaderboard?metric={BOARD}", timeout=30) as answer:
                of_page = orjson.loads(answer.read())
            for rows in (asked("leaderboard", "--by-run", "--metric", BOARD), of_page):
                assert [(row["agent_model"], row["value"]) for row in rows] == [(AGENT, mean)]
