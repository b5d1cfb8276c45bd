"""How long `streamer up` takes until the first summary can be read."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis
from aiokafka import AIOKafkaProducer

from benchmarks.common import Scale, events
from benchmarks.rows import Measured, Row, Sites
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names

FIRST_LINE_SECONDS = 1.0
SECONDS = 4.0
DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.02


def startup(scale: Scale, sites: Sites) -> Measured:
    """Rows: seconds from the command to its first line, and to the summary of an event sent when it is up."""
    turns = [_once() for _ in range(scale.warm_up + scale.repeats)][scale.warm_up :]
    values = {name: [turn[name] for turn in turns] for name in ("said", "announced", "readable")}
    what = "start of `streamer up` until the first summary can be read"
    return Measured(
        [
            Row("start of `streamer up` until its first line", values["said"], "s", "<=", FIRST_LINE_SECONDS),
            Row(what, values["readable"], "s", "<=", SECONDS),
        ],
        values,
    )


def _once() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-up-") as folder:
        discovery = Path(folder) / "running.json"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
        environment = clean | {"STREAMER_DISCOVERY": str(discovery)}
        command = [str(Path(sys.executable).with_name("streamer")), "up", "--data", f"{folder}/data"]
        log = Path(folder) / "up.log"
        began = time.monotonic()
        with log.open("wb") as output:
            up = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=folder)
        try:
            _wait(lambda: log.stat().st_size, up, log)
            said = time.monotonic() - began
            result = _wait(lambda: _found(discovery), up, log)
            announced = time.monotonic() - began
            [line] = events(1)
            asyncio.run(publish(result["bootstrap"], result["namespace"], line))
            key = Keys(result["namespace"]).run(json.loads(line)["run_id"])
            with redis.Redis.from_url(result["redis"]) as client:
                _wait(lambda: client.get(key), up, log)
            return {"said": said, "announced": announced, "readable": time.monotonic() - began}
        finally:
            up.terminate()
            up.wait(60)


def _found(discovery: Path) -> dict[str, Any] | None:
    return dict(json.loads(discovery.read_text())) if discovery.exists() else None


def _wait(look: Any, up: subprocess.Popen[bytes], log: Path) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := look()):
        assert up.poll() is None, f"`streamer up` ended:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"nothing after {DEADLINE_SECONDS} s:\n{log.read_text()}"
        time.sleep(POLL_SECONDS)
    return result


async def publish(bootstrap: str, namespace: str, line: bytes) -> None:
    """Publish one event, acknowledged."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        key = json.loads(line)["run_id"].encode()
        await producer.send_and_wait(Names(namespace).trial_events, line, key=key)
