"""CONTRIBUTING's recipe for a metric, followed in a copy of the packages: the metric is everywhere.

The code blocks of the section are what is applied, so the document itself is under test.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from redis import Redis

from streamer.storage.entries import Keys
from tests.house import recipes
from tests.house.repository import ROOT
from tests.support.cli import streamer
from tests.support.worker_process import wait_for
from tests.terminal.test_tail import up

TITLE = "Add a metric"
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)

MOST_FILES = 4
"""Product files that a metric may touch."""

METRIC, BOARD, RUN, AGENT = "retries", "mean_retries", "nightly", "a:m"
COPIED = ("streamer", "schemas", "tests", "docs")
PUBLISH = """
import sys, orjson
from streamer.client import TrialPublisher
with TrialPublisher() as publisher:
    for line in sys.stdin.buffer:
        event = orjson.loads(line)
        del event["type"]
        publisher.trial(**event)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = recipes.copied(tmp_path_factory.mktemp("contributor"), COPIED)
    shutil.copy(ROOT / "Makefile", tree)
    before = recipes.python_files(tree)
    recipe = recipes.steps(TITLE)
    recipes.follow(tree, recipe)
    for command in COMMANDS.findall(recipes.section(TITLE)):
        recipes.run_make(tree, command.split())
    changed = recipes.touched(tree, before)
    assert changed >= {step.path for step in recipe}
    assert len(changed) <= MOST_FILES, changed
    return tree


def events(count: int) -> bytes:
    """Trials of one agent, one JSON object per line; every seventh does not know its retries."""
    common = {"type": "trial_result", "run_id": RUN, "agent": "a", "model": "m", "cost_usd": 0.25}
    trials = [common | {"task_id": f"t{n}", "resolved": n % 2 == 0} for n in range(count)]
    known = [{METRIC: n % 5} if n % 7 != 6 else {} for n in range(count)]
    return b"".join(orjson.dumps(one | more) + b"\n" for one, more in zip(trials, known, strict=True))


def known_retries(count: int) -> list[int]:
    return [number % 5 for number in range(count) if number % 7 != 6]


def assert_summary_has_it(summary: Mapping[str, Any], count: int) -> None:
    """The summary of an agent says mean, extremes and coverage of the metric over so many trials."""
    values = known_retries(count)
    statistics = summary["statistics"][METRIC]
    assert statistics["count"] == summary["coverage"][METRIC] == len(values)
    assert statistics["mean"] == pytest.approx(sum(values) / len(values), rel=1e-15)
    assert (statistics["min"], statistics["max"]) == (min(values), max(values))


@pytest.fixture(autouse=True)
def _in_the_copy(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of these tests start in the copy, which Python then imports from."""
    monkeypatch.chdir(tree)


def test_the_copy_is_what_runs(tree: Path) -> None:
    result = recipes.run_python(tree, "import streamer; print(streamer.__file__)")
    assert all(Path(path).is_relative_to(tree) for path in result.split())


@pytest.mark.parametrize("count", [2, 200])
def test_a_file_is_folded_with_the_metric(tree: Path, tmp_path: Path, count: int) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(events(count))
    folded = streamer("fold", "--json", file, environment=recipes.environment(tree))
    assert folded.returncode == 0, folded.stderr.decode()
    summaries = [orjson.loads(line) for line in folded.stdout.splitlines()]
    [agent] = [one for one in summaries if one["type"] == "agent_model_summary"]
    assert_summary_has_it(agent, count)
    report = streamer("report", "--from", file, "--format", "csv", environment=recipes.environment(tree))
    assert_report_has_it(report.stdout, count)


def assert_report_has_it(content: bytes, count: int) -> None:
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert len(rows) == count
    assert sorted(int(row[METRIC]) for row in rows if row[METRIC]) == sorted(known_retries(count))


@pytest.mark.slow
@pytest.mark.in_turn(2)
def test_the_running_stack_has_the_metric(tree: Path, tmp_path: Path) -> None:
    """Broker, worker, Redis and page of the copy: 2 trials first, then 200."""
    here = recipes.environment(tree) | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    with up(tmp_path, **recipes.environment(tree)) as (_, log):
        [page] = re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())
        result = orjson.loads((tmp_path / "running.json").read_bytes())
        board = Keys(result["namespace"]).board(RUN, BOARD)
        for count in (2, 200):
            values = known_retries(count)
            mean = pytest.approx(sum(values) / len(values), rel=1e-15)
            publish(events(count), here)
            wait_for_trials(here, count)
            [agent] = asked(here, "query", "agents", RUN)
            assert_summary_has_it(agent, count)
            trials = asked(here, "query", "trials", RUN)
            assert sorted(trial[METRIC] for trial in trials if trial[METRIC] is not None) == sorted(values)
            with Redis.from_url(result["redis"]) as redis:
                assert redis.zscore(board, AGENT) == mean
            report = streamer("report", RUN, "--format", "csv", environment=here)
            assert_report_has_it(report.stdout, count)
            for rows in (asked(here, "query", "leaderboard", "--by-run", "--metric", BOARD), rows_of(page)):
                assert [(row["agent_model"], row["value"]) for row in rows] == [(AGENT, mean)]


def publish(lines: bytes, here: Mapping[str, str]) -> None:
    """Publish events as a harness does, by the arguments of `TrialPublisher.trial`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    command = [sys.executable, "-c", PUBLISH]
    done = subprocess.run(command, input=lines, env=clean | dict(here), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def asked(here: Mapping[str, str], *command: object) -> list[Any]:
    done = streamer(*command, "--json", environment=here)
    assert done.returncode == 0, done.stderr.decode()
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def wait_for_trials(here: Mapping[str, str], count: int) -> None:
    """Wait until the run summary and the topic of scored trials have so many trials."""

    def there() -> bool:
        done = streamer("query", "run", RUN, "--json", environment=here)
        if done.returncode != 0:
            return False
        counted: int = orjson.loads(done.stdout)["trials"]
        return counted == count and len(asked(here, "query", "trials", RUN)) == count

    wait_for(there, f"{count} trials are in", seconds=90)


def rows_of(page: str) -> list[Any]:
    with urllib.request.urlopen(f"{page}/api/leaderboard?metric={BOARD}", timeout=30) as answer:
        rows: list[Any] = orjson.loads(answer.read())
    return rows
