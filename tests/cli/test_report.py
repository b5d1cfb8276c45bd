"""`streamer report`: from Redis and the log, from a file, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.web.report import from_stack
from tests.report.reporting import NOW, START, from_csv
from tests.support.cli import streamer
from tests.support.events import a_trial
from tests.support.simulated import TIERED_RUN, simulate
from tests.web.feeding import Feed

run_command = partial(asyncio.to_thread, streamer)


async def test_redis_the_log_and_a_fold_give_the_same_report(
    feed: Feed, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    lines = simulate(seed=5, start=START)
    await feed.take(lines)
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"\n".join(lines))
    live = await run_command("report", TIERED_RUN, "--format", "json", environment=environment)
    assert live.returncode == 0, live.stderr
    folded = await run_command("report", TIERED_RUN, "--from", file, "--format", "json")
    assert folded.returncode == 1  # the simulation has lines that are no events
    assert len(folded.stderr.splitlines()) == 5
    told, again = json.loads(live.stdout), json.loads(folded.stdout)
    for part in ("agents", "tiers", "trials"):
        assert [one["digest"] for one in told[part]] == [one["digest"] for one in again[part]]
    assert told["run"]["digest"] == again["run"]["digest"]
    with redis.Redis.from_url(settings.redis) as client:
        stored = client.get(Keys(settings.namespace).run(TIERED_RUN))
    assert isinstance(stored, bytes)
    assert told["run"] == json.loads(stored)


async def test_csv_and_html_come_as_files_named_by_their_ending(
    feed: Feed, environment: dict[str, str], tmp_path: Path
) -> None:
    await feed.take([a_trial(task_id="a"), a_trial(task_id="b")])
    for name in ("run.csv", "run.html", "run.parquet"):
        done = await run_command("report", "run-1", "--out", tmp_path / name, environment=environment)
        assert done.returncode == 0, done.stderr
    assert len(from_csv((tmp_path / "run.csv").read_bytes())) == 2
    assert (tmp_path / "run.html").read_bytes().startswith(b"<!doctype html>")
    assert (tmp_path / "run.parquet").read_bytes().startswith(b"PAR1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.csv", "run.html", "run.parquet"]


async def test_markdown_and_no_trials_need_no_broker(feed: Feed, environment: dict[str, str]) -> None:
    await feed.take([a_trial()])
    without = environment | {"STREAMER_BOOTSTRAP": "127.0.0.1:1"}
    for arguments in (
        ["--format", "md"],
        ["--format", "html", "--no-trials"],
        ["--format=json", "--no-trials"],
    ):
        done = await run_command("report", "run-1", *arguments, environment=without)
        assert (done.returncode, done.stderr) == (0, b"")


async def test_a_run_whose_plan_alone_is_known_has_a_report(feed: Feed, settings: Settings) -> None:
    await feed.take([{"type": "run_started", "run_id": "r", "tasks": 3}])
    data = await asyncio.to_thread(from_stack, settings, "r", NOW)
    assert (data.trials, data.agents) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--format", "csv"], 2, "say which RUN"),
        (["r", "--format", "csv", "--no-trials"], 2, "made of trials"),
        (["r", "--format", "docx"], 2, "docx"),
        (["--from", "two.ndjson"], 1, "2 runs (q, r)"),
        (["s", "--from", "two.ndjson"], 1, "no run 's'"),
        (["r", "--from", "two.ndjson", "--out", "absent/run.md"], 1, "absent/run.md: No such file"),
        (["--from", "/dev/null"], 1, "the file holds no run. `streamer fold` says"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, arguments: list[Any], code: int, said: str) -> None:
    lines = [json.dumps(a_trial(run_id=run)) for run in "qr"]
    (tmp_path / "two.ndjson").write_text("\n".join(lines))
    done = streamer("report", *arguments, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert said.encode() in done.stderr
    assert (done.stdout, [path.name for path in tmp_path.iterdir()]) == (b"", ["two.ndjson"])
