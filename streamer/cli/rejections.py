"""`streamer rejections`: what workers rejected; requeue it once it is right."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import Command, json_option, with_settings
from streamer.cli.printing import print_json, print_line, print_table, say
from streamer.ops.rejections import (
    Again,
    LogPosition,
    StoredRejection,
    read_rejection,
    read_rejections,
    requeue,
)
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.text import counted

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
