"""An error becomes one clear line on stderr and an exit code; STREAMER_DEBUG=1 shows the traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from streamer.cli.extras import ExtraMissing, extra_of
from streamer.cli.printing import say

FOUND_WRONG = 1
USED_WRONGLY = 2
UNVERIFIABLE = 3
INTERRUPTED = 130
"""Ended by Ctrl-C, as shells report it."""
PIPE_CLOSED = 141
"""Ended because the reader of the output is gone, as shells report it."""

_OURS = "streamer"
_ABOUT_SETTINGS = {"BadPosition", "BadRedisUrl", "OtherProtocol", "PriceTableError"}
"""Errors of ours about what the user gave. By name: importing their modules would load the clients."""
_START = "Start one (streamer up, or docker compose up)"


@contextmanager
def explained(ctx: click.Context | None = None) -> Iterator[None]:
    """Let results and click's own exits pass; turn every other exception into a line and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        raise
    except BrokenPipeError:
        silence_stdout()
        _end("stopped: whoever read the output has closed it", PIPE_CLOSED)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", INTERRUPTED)
    except click.UsageError as error:
        at = error.ctx or ctx
        place = at.command_path if at else "streamer"
        _end(f"{error.format_message()} ({place} --help shows the usage)", USED_WRONGLY)
    except click.ClickException as error:
        _end(error.format_message(), error.exit_code)
    except Exception as error:
        extra = extra_of(error) if isinstance(error, ModuleNotFoundError) else None
        if extra and ctx and ctx.invoked_subcommand:
            _end(ExtraMissing(ctx.invoked_subcommand, extra).format_message(), USED_WRONGLY)
        if os.environ.get("STREAMER_DEBUG"):
            traceback.print_exception(error)
        _end(explain(error, ctx.find_root().obj if ctx else None), _code(error))


def explain(error: Exception, settings: object = None) -> str:
    """One sentence for people: what failed, where, what to do.

    Args:
        error: what was raised.
        settings: the :class:`streamer.settings.Settings` in force, if they were read.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    if _comes_from(error, "aiokafka", "kafka"):
        return _broker_problem(error, getattr(settings, "bootstrap", "the address given"))
    if _comes_from(error, "redis"):
        if wrong := _other_protocol(settings):
            return wrong
        where = without_password(getattr(settings, "redis", "the address given"))
        if type(error).__name__ in {"ConnectionError", "TimeoutError", "BusyLoadingError"}:
            return f"no Redis answers at {where}. {_START}, or name one with --redis"
        return f"Redis at {where} refused: {text}"
    if _comes_from(error, _OURS):
        return text
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or text
    return f"internal error, {type(error).__name__}: {text}. Please report it; STREAMER_DEBUG=1 shows where"


def _other_protocol(settings: object) -> str | None:
    """A sentence if Redis speaks TLS and we do not, or the other way round."""
    from streamer.redis.connect import address, other_protocol

    url = getattr(settings, "redis", None)
    wrong = other_protocol(url) if url else None
    return f"Redis at {address(url)} {wrong}, in --redis or STREAMER_REDIS" if url and wrong else None


def _code(error: Exception) -> int:
    return USED_WRONGLY if type(error).__name__ in _ABOUT_SETTINGS else FOUND_WRONG


def without_password(url: str) -> str:
    """A URL fit for printing.

    >>> without_password("redis://user:secret@host:6379/0?password=secret")
    'redis://host:6379/0'
    >>> without_password("redis://user:sec?ret@host/0"), without_password("secret@host")
    ('redis://...', '...')
    """
    scheme, found, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    if "@" in rest[len(place) :]:  # the end of a password, or a query: nobody can tell
        place = "..."
    return f"{scheme}://{place.rpartition('@')[2]}" if found else "..."


def _broker_problem(error: Exception, bootstrap: str) -> str:
    """The module is imported here only: other commands do not load Kafka's client."""
    from streamer.kafka.errors import broker_problem, is_away

    return broker_problem(error, bootstrap) + ", or name one with --bootstrap" * is_away(error)


def _comes_from(error: BaseException, *packages: str) -> bool:
    return type(error).__module__.partition(".")[0] in packages


def _end(line: str, code: int) -> None:
    say(f"streamer: {line}")
    raise click.exceptions.Exit(code)


def silence_stdout() -> None:
    """Point stdout nowhere, so that the interpreter's last flush cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process
