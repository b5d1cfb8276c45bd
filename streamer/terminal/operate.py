"""`streamer status`: broker, Redis, workers, lag."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from streamer.client.queries import UnknownRun, WorkerStatus
from streamer.client.readers import StateReader
from streamer.operate.health import (
    Again,
    DeploymentHealth,
    LogPosition,
    StoredRejection,
    quarantined,
    read_health,
    read_rejection,
    read_rejections,
    repair,
    requeue,
)
from streamer.schemas.wire import canonical_json
from streamer.settings import Settings
from streamer.storage.outbox import ThreadedPublisher, outgoing
from streamer.terminal import FOUND_WRONG, print_json, print_line, print_table, say
from streamer.terminal.options import Command, json_option, label_of, wait_option, with_settings
from streamer.text import counted, visible

# -----------------------------------------------------------------------------
# `streamer status`: broker, Redis, workers, lag.


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


# -----------------------------------------------------------------------------
# `streamer runs`: name and label a run, fold one again.


@click.group()
def runs_command() -> None:
    """Name and label runs; fold one again that is in quarantine."""


@runs_command.command("set")
@click.argument("run")
@click.option("--name", help="Name for people.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@with_settings
def set_(run: str, name: str | None, labels: tuple[str, ...], settings: Settings) -> None:
    """Give RUN a name and labels. Earlier ones stay, unless they are given again."""
    if name is None and not labels:
        raise click.UsageError("nothing to set: give --name or --label KEY=VALUE")
    plan = {"display_name": name, "labels": dict(map(label_of, labels)) or None}
    said = {field: value for field, value in plan.items() if value is not None}
    event = {"type": "run_started", "run_id": run, "revision": time.time_ns(), **said}
    with ThreadedPublisher(settings) as publisher:
        publisher.send(outgoing(event))
    say(f"{run}: published; the summaries follow as soon as a worker has seen it")


@runs_command.command("repair")
@click.argument("run")
@wait_option(60.0, "How long to wait for the worker.")
@with_settings
def repair_(run: str, wait: float, settings: Settings) -> None:
    """Fold RUN again from the log, and put what comes out in place of what there is.

    For a run in quarantine: something went wrong while it was folded or published, so its events stay
    in the log and are not counted. After an upgrade they may be. `streamer status` names such runs.
    If it fails again, the exit code is 1 and the last good summaries stand.
    """
    repair(settings, run, wait_seconds=wait)
    say(f"{run}: folded again from the log")


# -----------------------------------------------------------------------------
# `streamer delete`: forget a run.


WAIT_SECONDS = 15.0
POLL_SECONDS = 0.1


@click.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def delete_command(run: str, yes: bool, settings: Settings) -> None:
    """Delete RUN: its summaries, scores and boards vanish from the topics and from Redis.

    Its events stay in the log. Every result whose revision is not later than this moment is ignored from now
    on, also if it is published again. Later results count.
    """
    with StateReader(settings) as reader:
        trials = _trials(reader, run)
        if not yes:
            _ask(run, trials)
        event = {"type": "run_deleted", "run_id": run, "revision": time.time_ns()}
        with ThreadedPublisher(settings) as publisher:
            publisher.send(outgoing(event))
        if not _gone(reader, run):
            say(
                f"streamer: {run}: the deletion is published, but after {WAIT_SECONDS:.0f} s the run is "
                "still in Redis. A worker will see to it: `streamer status` shows whether one is running"
            )
            raise click.exceptions.Exit(FOUND_WRONG)
    say(f"{run}: deleted, and gone from Redis")


def _trials(reader: StateReader, run: str) -> int:
    """How many trials a run has; 0 for one in quarantine that was never published."""
    try:
        return reader.run(run).trials
    except UnknownRun:
        if run not in quarantined(reader):
            raise
        return 0


def _ask(run: str, trials: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"this deletes run {run!r} with {counted(trials, 'trial')}: confirm with --yes"
        )
    click.confirm(f"Delete run {visible(run)} with {counted(trials, 'trial')}?", abort=True, err=True)


def _gone(reader: StateReader, run: str) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            reader.run(run)
        except UnknownRun:
            if run not in quarantined(reader):
                return True
        time.sleep(POLL_SECONDS)
    return False


# -----------------------------------------------------------------------------
# `streamer rejections`: what workers rejected; requeue it once it is right.


UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class PlaceParameter(click.ParamType):
    """PARTITION:OFFSET of a rejection."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LogPosition:
        """The place, or a usage error."""
        try:
            return value if isinstance(value, LogPosition) else LogPosition.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class SinceParameter(click.ParamType):
    """A time, or how long ago it was."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The time in UTC, or a usage error."""
        if isinstance(value, datetime):
            return value
        try:
            if value[-1:] in UNITS:
                return datetime.now(UTC) - timedelta(**{UNITS[value[-1]]: float(value[:-1])})
            at = datetime.fromisoformat(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a time, as 2026-01-31T09:30Z, nor a span, as 90m or 2d", param)
        return at if at.tzinfo else at.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rejections are meant; None: any."""

    code: str | None
    run_id: str | None
    since: datetime | None

    @property
    def all(self) -> bool:
        """True if no filter was given."""
        return (self.code, self.run_id, self.since) == (None, None, None)

    def read(self, settings: Settings) -> Iterator[StoredRejection]:
        """The rejections that are meant."""
        since_ms = self.since.timestamp() * 1000 if self.since else 0
        for rejected in read_rejections(settings):
            if (
                self.code in (None, rejected.message.code)
                and self.run_id in (None, rejected.run_id)
                and rejected.timestamp_ms >= since_ms
            ):
                yield rejected


def with_filters(command: Command) -> Command:
    """Give the command --code, --run and --since, as `chosen`."""

    @click.option("--code", metavar="CODE", help="Only those with this reason code.")
    @click.option("--run", metavar="RUN", help="Only what is about this run.")
    @click.option(
        "--since",
        type=SinceParameter(),
        metavar="TIME",
        help="Only since then: a time (UTC), or 90m, 12h, 2d.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, code: str | None, run: str | None, since: datetime | None, **kwargs: Any) -> Any:
        return command(*args, chosen=Chosen(code, run, since), **kwargs)

    return wrapped  # type: ignore[return-value]


@click.group()
def rejections_command() -> None:
    """Show records that the workers rejected, and publish them again.

    A rejection is named by its place in the topic trial-rejections, PARTITION:OFFSET.
    """


@rejections_command.command("list")
@with_filters
@json_option
@with_settings
def list_(chosen: Chosen, as_json: bool, settings: Settings) -> None:
    """List rejections. With --json, each as an object with its id and everything that it holds."""
    if as_json:
        for rejected in chosen.read(settings):
            print_json(canonical_json(_as_json(rejected)))
        return
    rows = [_row(rejected) for rejected in chosen.read(settings)]
    columns = ("id", "rejected at", "code", "run", "source", "message")
    print_table(f"Rejections: {len(rows):,}", columns, rows, left=range(len(columns)))
    if not rows:
        say("no rejections" if chosen.all else "no such rejections")


@rejections_command.command()
@click.argument("place", metavar="ID", type=PlaceParameter())
@click.option("--raw", is_flag=True, help="Write the original bytes, and nothing else, as they are.")
@json_option
@with_settings
def show(place: LogPosition, raw: bool, as_json: bool, settings: Settings) -> None:
    """Show one rejection with the original bytes, escaped; --raw > FILE writes them to be corrected."""
    if raw and sys.stdout.isatty():
        raise click.UsageError(
            "--raw writes bytes that may act on a terminal; send them to a file: --raw > FILE"
        )
    rejected = read_rejection(settings, place)
    if raw:
        click.get_binary_stream("stdout").write(_original(rejected))
    elif as_json:
        print_json(canonical_json(_as_json(rejected)))
    else:
        _print_rejection(rejected)


@rejections_command.command("requeue")
@click.argument("place", metavar="[ID]", type=PlaceParameter(), required=False)
@click.option("--all", "everything", is_flag=True, help="Every rejection, or those that --code ... choose.")
@click.option(
    "--with",
    "corrected",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Publish the event in FILE (- is stdin) in the place of the original.",
)
@click.option("--force", is_flag=True, help="Publish also what would be rejected again.")
@with_filters
@with_settings
def requeue_(
    place: LogPosition | None,
    everything: bool,
    corrected: Path | None,
    force: bool,
    chosen: Chosen,
    settings: Settings,
) -> None:
    """Publish rejected records again: one by its ID, or --all that are right by now.

    That is of use after an upgrade, or with a correction. They count as if they had come right the first
    time. What this version would reject again stays where it is, and makes the exit code 1.
    """
    if everything == (place is not None) or (everything and corrected) or not (everything or chosen.all):
        raise click.UsageError(
            "name one rejection by its ID (--with FILE), or --all (--code, --run, --since)"
        )
    if place is not None:
        rejected = read_rejection(settings, place)
        wanted = [Again(rejected, _content(corrected) if corrected else _original(rejected))]
    else:
        wanted = list(_originals(chosen.read(settings)))
    right = wanted if force else [again for again in wanted if not _still_wrong(again)]
    sent = requeue(settings, right) if right else 0
    refused = len(wanted) - len(right)
    again = f"{refused:,} would be rejected again and were not sent"
    say(f"{counted(sent, 'record')} requeued and acknowledged; {again}")
    if refused:
        raise click.exceptions.Exit(FOUND_WRONG)


def _still_wrong(again: Again) -> bool:
    """Whether a record would be rejected again; if so, says why."""
    wrong = again.wrong
    if wrong is not None:
        say(f"{again.rejected.place}: still {wrong.code}: {wrong.message}")
    return wrong is not None


def _originals(found: Iterator[StoredRejection]) -> Iterator[Again]:
    for rejected in found:
        if rejected.original is None:
            say(f"{rejected.place}: left out, since its bytes were not kept")
        else:
            yield Again(rejected, rejected.original)


def _original(rejected: StoredRejection) -> bytes:
    if rejected.original is None:
        raise click.ClickException(
            f"rejection {rejected.place} holds no bytes: the record had "
            f"{rejected.message.source_value_bytes:,}. Publish the event again, or requeue it --with FILE"
        )
    return rejected.original


def _content(file: Path) -> bytes:
    with click.open_file(str(file), "rb") as opened:
        content: bytes = opened.read()
    return content.strip()


def _row(rejected: StoredRejection) -> tuple[object, ...]:
    message = rejected.message
    return (
        str(rejected.place),
        _time(rejected.timestamp_ms),
        message.code,
        rejected.run_id,
        f"{message.source_topic}/{message.source_partition}@{message.source_offset}",
        message.message,
    )


def _time(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _as_json(rejected: StoredRejection) -> dict[str, Any]:
    found = {"id": str(rejected.place), "rejected_at_ms": rejected.timestamp_ms}
    return found | rejected.message.model_dump(mode="json")


def _print_rejection(rejected: StoredRejection) -> None:
    message = rejected.message
    source = f"{message.source_topic}/{message.source_partition}@{message.source_offset}"
    for name, value in (
        ("rejection", rejected.place),
        ("rejected at", _time(rejected.timestamp_ms)),
        ("code", message.code),
        ("message", message.message),
        ("run", rejected.run_id),
        ("source", source),
        ("published at", _time(message.source_timestamp_ms)),
        ("bytes", f"{message.source_value_bytes:,}"),
    ):
        print_line(f"{name:<13} {value}")
    print_line()
    if rejected.original is None:
        print_line("(the bytes were not kept)" if message.source_value_bytes else "(no value)")
    else:
        for line in rejected.original.decode("utf-8", "backslashreplace").split("\n"):
            print_line(line)
