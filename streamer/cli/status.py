"""`streamer status`: broker, Redis, workers, lag."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import json_option, with_settings
from streamer.cli.printing import print_json, print_line, print_table, say
from streamer.client.results import WorkerStatus
from streamer.ops.health import DeploymentHealth, read_health
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings


@click.command()
@json_option
@with_settings
def status_command(as_json: bool, settings: Settings) -> None:
    """Show whether broker, Redis and workers are there, how far they are behind, which runs they set apart.

    The exit code is 1 if something is wrong; each problem is a line on stderr. Lag alone is no problem.
    """
    now = datetime.now(UTC)
    health = read_health(settings, now)
    if as_json:
        print_json(canonical_json(health.as_json(now)))
    else:
        _print_health(health, now)
    for problem in health.problems:
        say(f"streamer: {problem}")
    if health.problems:
        raise click.exceptions.Exit(FOUND_WRONG)


def _print_health(health: DeploymentHealth, now: datetime) -> None:
    topics = f", {len(health.topics)} topics" if health.broker_answers else ""
    print_line(f"Broker  {health.broker}  {_answers(health.broker_answers)}{topics}")
    print_line(f"Redis   {health.redis}  {_answers(health.redis_answers)}")
    print_line()
    columns = ("worker", "state", "partitions", "lag", "unsent keys", "last heard of")
    print_table("Workers", columns, (_worker(worker, now) for worker in health.workers), left=range(3))
    owners = {
        number: worker.worker_id
        for worker in health.live_workers(now)
        for number in worker.status.get("partitions", ())
    }
    rows = ((p.partition, owners.get(p.partition), p.lag, p.committed, p.end) for p in health.partitions)
    print_table("Partitions", ("partition", "worker", "lag", "done to", "end"), rows, left=range(2))


def _answers(answers: bool) -> str:
    return "answers" if answers else "does not answer"


def _worker(worker: WorkerStatus, now: datetime) -> list[object]:
    status = worker.status
    state = "waits" if status.get("waits") else "catching up" if status.get("catching_up") else "running"
    return [
        worker.worker_id,
        "silent" if worker.stale(now) else state,
        ", ".join(map(str, status.get("partitions", ()))),
        sum(status.get("lag", {}).values()),
        status.get("unsent"),
        f"{max(0.0, (now - worker.at).total_seconds()):.0f} s ago",
    ]
