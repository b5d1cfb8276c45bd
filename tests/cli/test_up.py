"""`streamer up` and what a newcomer does with it: publish, query, verify by digest, stop."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.embedded.stack import descendants
from tests.support.cli import COMMAND, streamer
from tests.support.worker_process import wait_for

RUNS = ("r1", "r2", "r/3")
EVENTS = b"".join(
    orjson.dumps(
        {"type": "trial_result", "run_id": run, "task_id": f"t{n}", "agent": "a", "model": "m", "tier": tier}
        | {"resolved": n % 3 == 0, "score": n / 7, "cost_usd": 0.1}
    )
    + b"\n"
    for run in RUNS
    for tier in ("T0", "T1")
    for n in range(7)
)
STOP_SECONDS = 40


@contextmanager
def up(directory: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A running `streamer up --ephemeral` that only commands with this discovery file find."""
    log = directory / "up.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    environment = clean | {"STREAMER_DISCOVERY": str(directory / "running.json")} | settings
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, "up", "--ephemeral"], stdout=out, stderr=subprocess.STDOUT, env=environment
        )
    try:
        wait_for(lambda: "Ctrl-C ends everything" in log.read_text(), "streamer up is up")
        yield process, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)


@pytest.mark.stack
def test_the_first_line_comes_long_before_the_stack_is_up(tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    environment = os.environ | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    with log.open("wb") as out:
        process = subprocess.Popen([*COMMAND, "up", "--ephemeral"], stdout=out, env=environment)
    try:
        wait_for(lambda: log.stat().st_size, "a line")
        assert not (tmp_path / "running.json").exists()
        assert log.read_text() == "Starting broker, Redis and worker (some seconds) ...\n"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STOP_SECONDS)


def summaries(output: bytes) -> dict[tuple[str, ...], dict[str, Any]]:
    found = [orjson.loads(line) for line in output.splitlines()]
    return {(s["type"], s["run_id"], s.get("tier") or "", s.get("agent_model") or ""): s for s in found}


@pytest.mark.slow
def test_what_is_published_to_the_stack_is_answered_with_the_digests_of_fold(tmp_path: Path) -> None:
    here = {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    folded = summaries(streamer("fold", "--json", stdin=EVENTS).stdout)

    def ask(*arguments: str) -> bytes:
        return streamer("query", *arguments, "--json", environment=here).stdout

    def agrees(answer: bytes, *types: str) -> bool:
        expected = {place: s["digest"] for place, s in folded.items() if place[0] in types}
        return {place: s["digest"] for place, s in summaries(answer).items()} == expected

    with up(tmp_path) as (process, log):
        published = streamer("publish", stdin=EVENTS * 2, environment=here)
        assert published.returncode == 0, published.stderr.decode()
        wait_for(lambda: agrees(ask("runs"), "run_summary"), "Redis says of the runs what fold says")
        groups = b"".join(ask(kind, run) for kind in ("agents", "tiers") for run in RUNS)
        assert agrees(groups, "agent_model_summary", "tier_summary")
        assert len(ask("trials", "r/3").splitlines()) == 14
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        assert log.read_text().splitlines()[-1].startswith("Everything ended")


@pytest.mark.slow
def test_the_worker_of_up_works_by_a_changed_price_file_without_an_operator(tmp_path: Path) -> None:
    here = {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    (prices := tmp_path / "prices.toml").write_text('[models."m"]\ninput = 10\noutput = 10\n')
    trial = {"type": "trial_result", "run_id": "r", "task_id": "t", "agent": "a", "model": "m"}
    event = orjson.dumps(trial | {"resolved": True, "input_tokens": 1_000_000, "output_tokens": 0})

    def costs() -> list[float]:
        found = streamer("query", "agents", "r", "--json", environment=here).stdout.splitlines()
        return [orjson.loads(line)["mean_cost"] for line in found]

    with up(tmp_path, STREAMER_PRICES_FILE=str(prices)) as (process, _):
        assert streamer("publish", stdin=event, environment=here).returncode == 0
        wait_for(lambda: costs() == [10.0], "the run is priced")
        prices.write_text('[models."m"]\ninput = 20\noutput = 20\n')
        [worker] = [pid for pid, command in descendants(process.pid).items() if "streamer.worker" in command]
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: costs() == [20.0], "the next worker prices it by the new file")


def test_a_worker_ends_with_exit_code_0_on_sigterm(
    embedded_broker: str, redis_server: Any, namespace: str, tmp_path: Path
) -> None:
    where = ("--bootstrap", embedded_broker, "--redis", redis_server.url, "--namespace", namespace)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [*COMMAND, "worker", *where], env=clean | {"STREAMER_EMBEDDED": "true"}, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: alive(where), "the worker reports")
        worker.terminate()
        assert worker.wait(STOP_SECONDS) == 0
    finally:
        worker.kill()
        worker.wait()


def alive(where: tuple[str, ...]) -> bool:
    """Whether a worker has reported."""
    return b'"workers":[{' in streamer("status", "--json", *where).stdout.replace(b" ", b"")
