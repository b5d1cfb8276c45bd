"""Commands called on a deployment with a worker, what they published."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer

from streamer.settings import Settings
from streamer.storage.kafka import partition_of
from tests.support.cli import COMMAND, streamer
from tests.support.events import Event, a_trial
from tests.support.online import Online

SECONDS = 60
Done = subprocess.CompletedProcess[bytes]


def call(stack: Online, *arguments: object, stdin: bytes = b"") -> Done:
    return streamer(*arguments, stdin=stdin, environment=stack.environment)


def stderr_of(done: Done, code: int) -> str:
    """What a command says on stderr that ended with this exit code."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stderr.decode()


@contextmanager
def started(
    stack: Online, *arguments: object, stdin: Any = None, stdout: Any = None, stderr: Any = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that goes on while the block works; killed at its end if it is still there."""
    environment = os.environ | stack.environment | {"PYTHONUNBUFFERED": "1"}
    command = [*COMMAND, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


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


def sent(settings: Settings, topic: str, run_id: str, *records: tuple[bytes | None, bytes | None]) -> None:
    """Send keys and values as they are into the partition of the run."""
    partition = partition_of(run_id, settings.partitions)

    async def sending() -> None:
        async with AIOKafkaProducer(**settings.kafka_options()) as producer:
            for key, value in records:
                await producer.send_and_wait(topic, value, key=key, partition=partition)

    asyncio.run(sending())


def settled(stack: Online, run_id: str, events: Sequence[Event] = ()) -> None:
    """Publish these events and nothing more, and wait until Redis says what the log says."""
    if events:
        published(stack, list(events))
    done = call(stack, "verify", run_id, "--wait", 30)
    assert done.returncode == 0, done.stdout + done.stderr


def lines(output: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in output.splitlines()]


def the_run(stack: Online, run_id: str) -> dict[str, Any]:
    done = call(stack, "query", "run", run_id, "--json")
    return lines(done.stdout)[0] if done.returncode == 0 else {}
