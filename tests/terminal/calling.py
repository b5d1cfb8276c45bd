"""Commands called on a deployment with a worker, and what they published."""

from __future__ import annotations

import subprocess
from typing import Any

import orjson

from tests.support.cli import streamer
from tests.support.events import Event, a_trial
from tests.support.online import Online

SECONDS = 60


Done = subprocess.CompletedProcess[bytes]


def call(stack: Online, *arguments: object, stdin: bytes = b"") -> Done:
    return streamer(*arguments, stdin=stdin, environment=stack.environment)


def ndjson(events: list[Event]) -> bytes:
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def a_run(run_id: str, trials: int = 12) -> list[Event]:
    return [
        a_trial(run_id=run_id, task_id=f"t{n}", tier=f"T{n % 2}", resolved=n % 3 > 0, score=n / trials)
        for n in range(trials)
    ]


def published(stack: Online, events: list[Event]) -> None:
    done = call(stack, "publish", stdin=ndjson(events))
    assert done.returncode == 0, done.stderr


def settled(stack: Online, run_id: str) -> None:
    """Publish nothing more and wait until Redis says what the log says."""
    done = call(stack, "verify", run_id, "--wait", 30)
    assert done.returncode == 0, done.stdout + done.stderr


def lines(output: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in output.splitlines()]


def the_run(stack: Online, run_id: str) -> dict[str, Any]:
    done = call(stack, "query", "run", run_id, "--json")
    return lines(done.stdout)[0] if done.returncode == 0 else {}
