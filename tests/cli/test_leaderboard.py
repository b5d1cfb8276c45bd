"""`streamer query leaderboard`: the runs of a benchmark pooled, as a table, as JSON and as an HTML file."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from tests.support.board_runs import a_night
from tests.support.cli import streamer
from tests.web.feeding import Feed
from tests.web.serving import Serving

run_command = partial(asyncio.to_thread, streamer, "query", "leaderboard")

NIGHTS = [
    *a_night("n1", 1, {"best": "+" * 10, "mid": "++" + "-" * 8}, attempts=1),
    *a_night("n2", 2, {"best": "+" * 10, "mid": "+" * 9 + "-"}, attempts=1),
    *a_night("n3", 3, {"best": "+" * 4}, ended=False, tasks=10, attempts=1),
    *a_night("swe", 3, {"best": "-" * 6}, benchmark="swe", attempts=1),
]


def objects(stdout: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdout.splitlines()]


async def test_the_command_and_the_api_pool_alike(
    feed: Feed, settings: Settings, environment: dict[str, str]
) -> None:
    await feed.take(NIGHTS)
    boards = objects((await run_command("--json", environment=environment)).stdout)
    assert [(board["benchmark"], [row["agent_model"] for row in board["rows"]]) for board in boards] == [
        ("swe", ["best:m"]),
        ("tb", ["best:m", "mid:m"]),
    ]
    with Serving(settings) as serving:
        for options, query in (
            ([], ""),
            (["--all-benchmarks"], "?all_benchmarks=true"),
            (["--benchmark", "tb", "--metric", "metrics/reward"], "?benchmark=tb&metric=metrics/reward"),
            (["--run", "n1"], "?run=n1"),
        ):
            told = objects((await run_command("--json", *options, environment=environment)).stdout)
            answer = await asyncio.to_thread(serving.get, f"/api/leaderboards{query}")
            assert told == answer.json() != []


async def test_tables_mark_what_is_left_out_and_a_limit_cuts_the_rest(
    feed: Feed, environment: dict[str, str]
) -> None:
    await feed.take(NIGHTS)
    text = (await run_command("--benchmark", "tb", environment=environment)).stdout.decode()
    assert text.startswith("tb: pass rate, highest first\n")
    rows = [line for line in text.splitlines() if ":m " in line]
    assert [row.split()[:2] for row in rows] == [["best:m", "1"], ["mid:m", "2"], ["best:m", "–"]]
    assert "real" in rows[1]
    assert rows[2].rstrip().endswith(("running", "stalled"))
    limited = await run_command("--benchmark", "tb", "--limit", 1, "--json", environment=environment)
    [board] = objects(limited.stdout)
    assert (len(board["rows"]), board["below"]) == (1, [])
    none = await run_command("--label", "team=blue", environment=environment)
    assert none.stdout.decode() == "No agent is on the board of pass_rate.\n"


async def test_the_html_file_needs_nothing_else(
    feed: Feed, environment: dict[str, str], tmp_path: Path
) -> None:
    await feed.take(NIGHTS)
    file = tmp_path / "board.html"
    done = await run_command("--benchmark", "tb", "--html", file, environment=environment)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    content = file.read_text()
    assert "tb: pass rate, highest first" in content
    assert 'src="' not in content


@pytest.mark.parametrize("options", [["--all-benchmarks"], ["--html", "x.html"]])
def test_rows_by_run_pool_nothing(options: list[str]) -> None:
    done = streamer("query", "leaderboard", "--by-run", *options)
    assert (done.returncode, b"--by-run pools nothing" in done.stderr) == (2, True)
