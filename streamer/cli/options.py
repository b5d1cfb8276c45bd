"""Options that commands share."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from streamer.cli.printing import WIDE_OPTION
from streamer.records import BadPosition, Position
from streamer.settings import BadConfigurationFile, Settings, what_is_wrong

Command = TypeVar("Command", bound=Callable[..., Any])

_SERVER = re.compile(r"[^\s,]+:[0-9]{1,5}")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print only JSON on stdout, one object per line."
)
"""Gives the command `as_json: bool`."""


class _PositionType(click.ParamType):
    """OFFSET or TIME, as `Position.of` reads them."""

    name = "position"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Position | None:
        """The position; what is wrong with it is a usage error."""
        if value is None or isinstance(value, Position):
            return value
        try:
            return Position.of(str(value))
        except BadPosition as error:
            self.fail(str(error), param, ctx)


def position_option(name: str, help: str) -> Callable[[Command], Command]:
    """An option that gives the command a `Position`, or None."""
    return click.option(name, type=_PositionType(), metavar="OFFSET|TIME", help=help)


as_of_option = position_option(
    "--as-of",
    "Count only events up to this offset (`state_version`; of a file the line's number from 0) or time.",
)
"""Gives the command `as_of: Position | None`."""

as_of_time_option = position_option(
    "--as-of",
    "Count only events up to this time; folds the whole log again. OFFSET is of one run, so not of all.",
)
"""The same for a command that is about several runs; it refuses an offset."""


class FiniteRange(click.FloatRange):
    """A number in a range. `FloatRange` takes NaN for any range, and infinity for one without an end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for NaN and the infinities."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no amount. Give a finite number, as 40 or 0.5", param, ctx)
        return number


budget_option = click.option(
    "--budget",
    type=FiniteRange(min=0),
    metavar="USD",
    help="Say whether the run will cost more than this, as a forecast.",
)
"""Gives the command `budget: float | None`."""


def wait_option(seconds: float, text: str) -> Callable[[Command], Command]:
    """Gives the command `wait: float`, in seconds."""
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
"""Makes `print_board` print all columns."""


def label_of(text: str) -> tuple[str, str]:
    """Key and value of a --label KEY=VALUE; a usage error for anything else."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--label {text!r} is not of the form KEY=VALUE")
    return key, value


def with_settings(command: Command) -> Command:
    """Give the command --bootstrap, --redis and --namespace, and `settings` with them applied."""

    @click.option("--bootstrap", metavar="HOST:PORT", help="Kafka bootstrap servers, comma-separated.")
    @click.option("--redis", metavar="URL", help="Redis URL, redis:// or rediss://.")
    @click.option("--namespace", metavar="NAME", help="Prefix of topics, group and keys.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, bootstrap: str | None, redis: str | None, namespace: str | None, **kwargs: Any
    ) -> Any:
        given = {"bootstrap": bootstrap, "redis": redis, "namespace": namespace}
        settings = read_settings({name: value for name, value in given.items() if value is not None})
        click.get_current_context().find_root().obj = settings
        return command(*args, settings=settings, **kwargs)

    return wrapped  # type: ignore[return-value]


def read_settings(given: dict[str, Any]) -> Settings:
    """Settings with the given ones on top; what is wrong with them is a usage error."""
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise click.UsageError(what_is_wrong(error)) from error
    except BadConfigurationFile as error:
        raise click.UsageError(str(error)) from error
    for server in settings.bootstrap.split(","):
        if not _SERVER.fullmatch(server.strip()):
            raise click.UsageError(
                f"setting bootstrap: {server!r} is no server; write HOST:PORT,HOST:PORT,..."
            )
    return settings
