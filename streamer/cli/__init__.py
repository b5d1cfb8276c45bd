"""The command line. Each command is one module here, named as in COMMANDS, and is loaded when it is called.

To add a command: a module `streamer/cli/NAME.py` with the click command `NAME_command`, and a line below.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from streamer.cli.errors import explained
from streamer.cli.extras import ExtraMissing, check_installed, extra_of

COMMANDS = {
    "convert": "Turn run directories of a harness into events, one JSON object per line.",
    "tail": "Follow a run directory: publish each result as its file becomes complete.",
    "shuffle": "Shuffle a list of tasks, so that a run can be judged while it goes on.",
    "fold": "Fold events into summaries, without a broker.",
    "query": "Ask for current state: runs, agents, tiers, trials, leaderboards.",
    "report": "Write a report of a run: Markdown, HTML, CSV, Parquet or JSON.",
    "compare": "Compare two runs or agents task by task; the exit code says whether B is worse.",
    "gate": "Judge a run against another one while it goes on; the exit code is the verdict.",
    "why": "Say which trials moved a number, by how much, newest first.",
    "publish": "Publish events from a file or a pipe.",
    "subscribe": "Follow summaries, grades, rejections or trials as they come.",
    "rejections": "Show what was rejected, and publish it again once it is right.",
    "events": "Print the events of a run from the log, one JSON object per line.",
    "prices": "Say which price of a model applies, and who says so.",
    "verify": "Fold the log again and compare with what Redis says.",
    "rebuild": "Make the state anew from the log: compare, then replace it.",
    "status": "Broker, Redis, workers and lag.",
    "runs": "Name and label runs; fold one again.",
    "config": "Which prices and formulas the workers publish with; make others current.",
    "delete": "Delete a run from every topic and from Redis.",
    "schema": "Write JSON Schema and AsyncAPI documents.",
    "worker": "Run a worker.",
    "up": "Run broker, Redis, a worker and the page on this machine.",
    "watch": "Show live boards in this terminal.",
    "serve": "Show live boards in a browser, with a JSON API.",
    "notify": "Tell chat, mail and other services of starts, ends, grades, budgets, stalls; once each.",
    "live": "Start everything here, follow a run directory, show the board.",
    "simulate": "Write a run directory as a harness does, to try things on.",
    "demo": "Start everything, stream a simulated benchmark, show the board.",
}
"""Command -> what it does in one line, in the order of `streamer --help`."""


class LazyGroup(click.Group):
    """Loads a command's module when it is called, so that help is fast and `fold` loads no Kafka client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None if there is none.

        Raises:
            ExtraMissing: the extra that it needs is not installed.
        """
        if cmd_name not in COMMANDS:
            return None
        check_installed(cmd_name)
        try:
            command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), f"{cmd_name}_command")
        except ModuleNotFoundError as error:
            if extra := extra_of(error):
                raise ExtraMissing(cmd_name, extra) from error
            raise
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options before the command; what is wrong with them becomes one line, too."""
        with explained():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what goes wrong becomes one line on stderr and an exit code."""
        with explained(ctx):
            return super().invoke(ctx)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="trialstream")
def cli() -> None:
    """Live, exact, replayable results for LLM-agent benchmarks.

    Settings come from options, STREAMER_* variables or streamer.toml, in this order.
    Exit codes: 0 done, 1 found something wrong, 2 used wrongly, 3 cannot be verified.
    """


def main() -> None:
    """Entry point of the programs `streamer` and `trialstream`, which are the same."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for library in ("aiokafka", "asyncio"):  # what matters of it comes as an exception, explained in one line
        logging.getLogger(library).addHandler(logging.NullHandler())
    cli(prog_name="streamer")
