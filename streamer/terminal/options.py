"""Options and arguments that several commands share, and how they read settings, files and prices."""

from __future__ import annotations

import functools
import gzip
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from inspect import signature
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
import orjson
from pydantic import ValidationError

from streamer.settings import BadConfigurationFile, Settings, what_is_wrong
from streamer.terminal import WIDE_OPTION, say

if TYPE_CHECKING:
    from streamer.client.folded import FoldedRun, PastRuns
    from streamer.client.queries import RunAnswers
    from streamer.folding.fold import After
    from streamer.folding.prices import PriceTable
    from streamer.schemas.summaries import RunSummary
    from streamer.schemas.wire import Position, Record, Rejected
    from streamer.statistics.ability import JudgeError


# -----------------------------------------------------------------------------
# Options that commands share.


Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")

_SERVER = re.compile(r"[^\s,]+:[0-9]{1,5}")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print only JSON on stdout, one object per line."
)


def bundled(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Command], Command]:
    """Combine options into one argument `name`, which `make` builds from their values.

    Options that `make` does not take remain arguments of the command.
    """
    taken = tuple(signature(make).parameters)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**values: Any) -> Any:
            made = make(**{option: values.pop(option) for option in taken})
            return command(**{name: made}, **values)

        for option in reversed(options):
            wrapped = option(wrapped)
        return cast(Command, wrapped)

    return decorate


def _position(text: str) -> Position:
    from streamer.schemas.wire import BadPosition, Position

    try:
        return Position.of(text)
    except BadPosition as error:
        raise click.BadParameter(str(error)) from error


def position_option(name: str, help: str) -> Callable[[Command], Command]:
    return click.option(name, type=_position, metavar="OFFSET|TIME", help=help)


as_of_option = position_option(
    "--as-of",
    "Count only events up to this offset (`state_version`; in a file, the line number from 0) or time.",
)
"""Decorator for `as_of: Position | None`."""

as_of_time_option = position_option(
    "--as-of",
    "Count only events up to this time; folds the whole log again. OFFSET is for one run, not for all.",
)
"""Decorator for `as_of` of several runs, which cannot be an offset."""


class FiniteRange(click.FloatRange):
    """A finite number in a range: `FloatRange` accepts NaN, and infinity in an open range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not finite. Give a number, such as 40 or 0.5", param, ctx)
        return number


def exact_number(low: str, high: str | None = None, *, open_: bool = False) -> Callable[[str], Fraction]:
    """The type of an exact number: 0.02 is 1/50. Numbers out of range are usage errors."""
    least, most = Fraction(low), None if high is None else Fraction(high)

    def number(text: str) -> Fraction:
        try:
            value = Fraction(text)
        except (ValueError, ZeroDivisionError) as error:
            raise click.BadParameter(f"{text!r} is not a number; write one like 0.02") from error
        if value < least or (most is not None and value > most) or (open_ and value in (least, most)):
            allowed = f"from {low} on" if high is None else f"between {low} and {high}"
            raise click.BadParameter(f"{text} is not {allowed}")
        return value

    return number


budget_option = click.option(
    "--budget",
    type=FiniteRange(min=0),
    metavar="USD",
    help="Forecast whether the run will cost more than this.",
)


def wait_option(seconds: float, text: str) -> Callable[[Command], Command]:
    """Decorator for `wait: float`, in seconds."""
    return click.option(
        "--wait", type=FiniteRange(min=0), default=seconds, show_default=True, metavar="SECONDS", help=text
    )


def _remember_wide(context: click.Context, _: click.Parameter, wide: bool) -> None:
    context.meta[WIDE_OPTION] = wide


wide_option = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_remember_wide,
    help="Print all columns, however narrow the terminal is.",
)
"""Decorator for --wide, with which `print_board` prints all columns."""


def labels_given(texts: Iterable[str]) -> dict[str, str]:
    """Each --label KEY=VALUE; a usage error for anything else, and for a key that is given twice."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--label {text!r} is not KEY=VALUE")
        if labels.setdefault(key, value) != value:
            raise click.UsageError(f"--label {key} is given twice, with different values")
    return labels


def _local_settings(bootstrap: str | None, redis: str | None, namespace: str | None) -> Settings:
    given = {"bootstrap": bootstrap, "redis": redis, "namespace": namespace}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    click.get_current_context().find_root().obj = settings
    return settings


def _settings(bootstrap: str | None, redis: str | None, namespace: str | None) -> Settings:
    settings = _local_settings(bootstrap, redis, namespace)
    if told := settings.implicit_file_that_decides():
        say(f"streamer: {told}")
    return settings


_WHERE = (
    click.option("--bootstrap", metavar="HOST:PORT", help="Kafka bootstrap servers, comma-separated."),
    click.option("--redis", metavar="URL", help="Redis URL, redis:// or rediss://."),
    click.option("--namespace", metavar="NAME", help="Prefix of topics, group and keys."),
)

with_settings = bundled("settings", _settings, *_WHERE)
"""Decorator for --bootstrap, --redis and --namespace, as `settings`.

The command connects, so stderr names the configuration file that has the address.
"""

with_local_settings = bundled("settings", _local_settings, *_WHERE)
"""Decorator for `settings` of a command that does not connect to the servers in them."""


def read_settings(given: dict[str, Any]) -> Settings:
    """Settings, overridden by the given values; wrong ones are usage errors."""
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise click.UsageError(what_is_wrong(error)) from error
    except BadConfigurationFile as error:
        raise click.UsageError(str(error)) from error
    for server in settings.bootstrap.split(","):
        if not _SERVER.fullmatch(server.strip()):
            raise click.UsageError(
                f"setting bootstrap: {server!r} is not a server; write HOST:PORT,HOST:PORT,..."
            )
    return settings


# -----------------------------------------------------------------------------
# A run that Redis has, but the log has not.


def stored_run(settings: Settings, run_id: str) -> RunSummary | None:
    """The run in Redis, None if Redis does not answer; raises UnknownRun, which names similar runs."""
    from streamer.client.queries import RedisUnavailable
    from streamer.client.readers import StateReader

    with suppress(RedisUnavailable), StateReader(settings) as reader:
        return reader.run(run_id)
    return None


def scored_of(settings: Settings, run_id: str, as_of: Position | None = None) -> list[bytes]:
    """The scored trials of a run as published, or at a position; [] if it has none yet.

    Raises UnknownRun, or NotInLog if the log lacks all trials of the run.
    """
    from streamer.client.feeds import NotInLog, scored_trials  # only this needs a Kafka client

    if as_of is not None:
        return run_as_of(settings, run_id, as_of).scored_trials()
    try:
        return scored_trials(settings, run_id)
    except NotInLog:
        run = stored_run(settings, run_id)
        if run is None or run.progress.done:
            raise
        return []


# -----------------------------------------------------------------------------
# The records of a file or of stdin: NDJSON, plain or gzip, regardless of the name.


MAX_LINE_BYTES = 64 * 1024 * 1024
"""The most bytes of a file held at once; a longer line cannot be an event, which has at most 1 MiB."""

_GZIP = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BUNDLE = b"events.ndjson\0"
"""First bytes of a bundle: its first member's name. `streamer.operate.bundle` needs an extra."""

file_argument = click.argument(
    "file", default="-", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
"""Decorator for `file: Path`; `-`, the default, is stdin."""

out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; stdout if not given."
)

from_option = click.option(
    "--from",
    "events",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Fold the events in FILE instead of asking a server; - is stdin.",
)


def is_bundle(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_BUNDLE)) == _BUNDLE


@contextmanager
def open_records(file: Path) -> Iterator[Iterator[Record]]:
    """The records of a file (see `records_of_lines`), read lazily; `-` is stdin.

    Raises a usage error for UTF-16 or a bundle, and a ClickException for damaged gzip or a line over 64 MiB.
    """

    from streamer.schemas.wire import records_of_lines

    if str(file) == "-" and sys.stdin.isatty():
        say("reading events from the terminal, one JSON object per line; Ctrl-D ends them")
    opened = click.open_file(str(file), "rb")
    # A buffer around a buffered pipe would wait until it is full, but lines are needed as they come.
    peekable = hasattr(opened, "peek")
    with cast("BufferedReader", opened) if peekable else BufferedReader(cast("RawIOBase", opened)) as stream:
        start = stream.peek(2)[:2]
        if start in _UTF_16:
            raise click.UsageError(
                f"{file} is UTF-16; events are UTF-8 (in PowerShell: Out-File -Encoding utf8)"
            )
        lines = _unpacked(file, stream) if start == _GZIP else _lines(file, stream)
        if (first := next(lines, b"")).startswith(_BUNDLE):
            raise click.UsageError(
                f"{file} is a bundle: use `streamer check`. Its events are in events.ndjson, which `tar "
                "-x` unpacks"
            )
        yield records_of_lines(chain([first] if first else [], lines), str(file))


def answered(file: Path, answer: Callable[[Iterator[Record]], tuple[T, list[Rejected]]]) -> tuple[T, int]:
    """The answer from a file's records, and the number of unfoldable lines, which are reported."""
    with open_records(file) as records:
        result, rejected = answer(records)
    for one in rejected:
        report_rejected(one)
    return result, len(rejected)


def report_rejected(rejected: Rejected, *, several: bool = False) -> None:
    """Report a line that cannot be folded; with `several` files also which of them has it."""
    rejection = orjson.loads(rejected.value)
    file = f"{rejection['source_topic']}, " if several else ""
    say(f"{file}line {rejection['source_offset'] + 1}: {rejection['code']}: {rejection['message']}")


def _unpacked(file: Path, stream: IO[bytes]) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield from _lines(file, unpacked)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise click.ClickException(f"{file} is damaged gzip: {error}") from error


def _lines(file: Path, stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    from streamer.schemas.base import MAX_RECORD_BYTES

    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise click.ClickException(
                f"{file}: line {number} has more than {MAX_LINE_BYTES:,} bytes; an event has at most "
                f"{MAX_RECORD_BYTES:,}. Nothing from there on was read."
            )
        yield line


# -----------------------------------------------------------------------------
# `--history`: earlier runs, from the servers or from files.


history_option = click.option(
    "--history",
    multiple=True,
    metavar="RUN|FILE",
    help="An earlier run, or a file of events with all its runs; repeat it for more.",
)


def is_file(name: str) -> bool:
    """Whether it is a file; False also for a run id too long for a file name."""
    with suppress(OSError):
        return Path(name).is_file()
    return False


# -----------------------------------------------------------------------------
# The price table of a command.


prices_option = click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own TOML price table.",
)


def price_table(file: Path | None) -> PriceTable:
    """The price table in a file, or the default one; a wrong file is a usage error."""
    from streamer.folding import prices

    try:
        return prices.price_table(file)
    except prices.PriceTableError as error:
        raise click.UsageError(str(error)) from error


# -----------------------------------------------------------------------------
# `--by label:KEY`: break a run down by a label of its trials.


_PREFIX = "label:"
SUBTEST = "subtest"


def label_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    if not value.startswith(_PREFIX) or value == _PREFIX:
        raise click.BadParameter(f"{value!r} is not label:KEY (label:language)")
    return value.removeprefix(_PREFIX)


def part(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`subtest` or `label:KEY`, unchanged; others are usage errors."""
    if value is None or value == SUBTEST or (value.startswith(_PREFIX) and value != _PREFIX):
        return value
    raise click.BadParameter(f"{value!r} is neither {SUBTEST} nor label:KEY")


label_option = click.option(
    "--by",
    "label",
    metavar="label:KEY",
    callback=label_key,
    help="Break down by a label of the trials; folds the run's log again.",
)


def labels_of(
    settings: Settings, run_id: str, label: str, as_of: Position | None = None
) -> tuple[list[dict[str, Any]], FoldedRun]:
    """The groups of a run by label, and the run; a usage error if no trial has the label."""
    from streamer.client.folded import fold_run
    from streamer.folding.breakdowns import UnknownLabel, by_label  # only this folds

    folded = fold_run(settings, run_id, price_table(settings.prices_file), as_of)
    try:
        return by_label(folded.run.state, label), folded
    except UnknownLabel as error:
        raise click.UsageError(str(error)) from None


# -----------------------------------------------------------------------------
# `--as-of`: runs folded again up to an earlier position, and messages about them.


def answers_at(settings: Settings, run_id: str, as_of: Position | None, *parts: str) -> RunAnswers:
    """These parts of a run from Redis, or the whole run at a position of the log."""
    if as_of is not None:
        return run_as_of(settings, run_id, as_of).answers

    from streamer.client.readers import StateReader

    with StateReader(settings) as reader:
        return reader.answers(run_id, *parts)


def run_as_of(
    settings: Settings, run_id: str, as_of: Position | None, after: After | None = None
) -> FoldedRun:
    """The run at a position of the log, or now; a truncated log is reported on stderr."""

    from streamer.client.folded import fold_run

    folded = fold_run(settings, run_id, price_table(settings.prices_file), as_of, after=after)
    say_if_truncated(folded.log.begins_at)
    return folded


def judged_at(
    settings: Settings, run_id: str, as_of: Position | None
) -> tuple[RunAnswers, dict[str, dict[str, JudgeError]]]:
    """The run at a position, and the judges' part in its agents' errors."""
    from streamer.folding.breakdowns import JudgedScores

    scores = JudgedScores()
    folded = run_as_of(settings, run_id, as_of, scores.after)
    return folded.answers, scores.errors(folded.run.state)


def runs_as_of(
    settings: Settings, as_of: Position, run_id: str | None = None, *, tasks: bool = True
) -> PastRuns:
    """All runs, or one, at a position; missing or truncated ones are reported on stderr."""

    from streamer.client.folded import fold_runs
    from streamer.folding.fold import CannotBeFolded

    past = fold_runs(settings, price_table(settings.prices_file), as_of, run_id, tasks=tasks)
    for whose, begins_at in past.truncated.items():
        say_if_truncated(begins_at, whose)
    for failure in past.failed:
        say(f"left out: {CannotBeFolded(failure)}")
    return past


def say_if_truncated(begins_at: int, whose: str = "this run") -> None:
    """Report on stderr if a log (`whose`) has lost its events before `begins_at`."""
    if begins_at:
        say(
            f"the log of {whose} begins at offset {begins_at:,}, because earlier events were "
            "deleted. If events that count were among them, they are missing"
        )
