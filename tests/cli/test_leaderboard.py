"""`streamer query leaderboard`: the runs of a benchmark pooled, as a table, as JSON and as an HTML file."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from tests.cli.calling import call, published, settled
from tests.support.board_runs import a_night
from tests.support.cli import streamer
from tests.support.online import Online
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


MONTHS = {"benchmark": "as-of-boards"}


def test_as_of_a_time_the_boards_and_the_list_of_runs_are_those_of_then(stack: Online) -> None:
    """What a worker published is asked for between portions, and again once everything is there."""
    portions = [
        [*a_night("board/1", 1, {"best": "+" * 10, "mid": "++" + "-" * 8}, attempts=1, **MONTHS)],
        [*a_night("board/2", 2, {"best": "+" * 4}, ended=False, tasks=10, attempts=1, **MONTHS)],
        [
            *a_night("board/2", 2, {"best": "-" * 10}, tasks=10, attempts=1, revision=1, **MONTHS),
            {"type": "run_deleted", "run_id": "board/1", "revision": 0},
        ],
    ]
    boards = ["leaderboard", "--benchmark", MONTHS["benchmark"]]
    questions = [["runs"], boards, [*boards, "--by-run"]]
    then: list[tuple[str, list[list[dict[str, Any]]]]] = []
    for portion in portions:
        published(stack, portion)
        for run_id in {event["run_id"] for event in portion}:
            settled(stack, run_id)
        moment = datetime.now(UTC).isoformat()
        then.append((moment, [asked(stack, *question) for question in questions]))
    for moment, answers in then:
        for question, answer in zip(questions, answers, strict=True):
            assert asked(stack, *question, "--as-of", moment) == answer, (question, moment)
    digests = [[run["digest"] for run in answers[0]] for _, answers in then]
    assert [len(held) for held in digests] == [1, 2, 1]
    assert len({digest for held in digests for digest in held}) == 3


def asked(stack: Online, *question: str) -> list[dict[str, Any]]:
    """What a query prints of our runs; states change with the time of asking."""
    done = call(stack, "query", *question, "--json")
    assert done.returncode == 0, done.stderr
    found = [{**one, "state": None} for one in objects(done.stdout)]
    return [one for one in found if one.get("benchmark") == MONTHS["benchmark"] or "run" in one]


def test_of_one_run_the_boards_of_a_version_are_those_published_then(stack: Online, tmp_path: Path) -> None:
    benchmark = {"benchmark": "as-of-board"}
    published(stack, [*a_night("board/3", 1, {"a": "+" * 8, "b": "-" * 8}, attempts=1, **benchmark)])
    settled(stack, "board/3")
    [run] = [
        run for run in objects(call(stack, "query", "runs", "--json").stdout) if run["run_id"] == "board/3"
    ]
    one = ["query", "leaderboard", "--run", "board/3", "--json"]
    for options in ([], ["--by-run"]):
        now = call(stack, *one, *options)
        assert objects(now.stdout)
        assert call(stack, *one, *options, "--as-of", run["state_version"]).stdout == now.stdout
        earlier = call(stack, *one, *options, "--as-of", run["state_version"] - 9)
        assert (earlier.returncode, earlier.stdout == now.stdout) == (0, False)
    file = tmp_path / "board.html"
    assert call(stack, *one[:-1], "--as-of", run["state_version"], "--html", file).returncode == 0
    assert f"as of {run['state_version']}" in file.read_text()


@pytest.mark.parametrize("question", [["runs"], ["leaderboard"]])
def test_of_several_runs_an_offset_says_nothing(stack: Online, question: list[str]) -> None:
    done = call(stack, "query", *question, "--as-of", 3)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"offset 3 is a place in one partition of the log" in done.stderr
    future = call(stack, "query", *question, "--as-of", "2999-01-01T00:00:00Z")
    assert (future.returncode, b"is in the future" in future.stderr) == (2, True)
