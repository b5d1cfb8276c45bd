"""`streamer shuffle`: a random order of tasks that a harness can be given."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path

import click
import orjson

from streamer.cli.options import with_settings
from streamer.cli.printing import print_json, print_line
from streamer.inference.shuffle import shuffled_rounds
from streamer.schemas.limits import MAX_PLANNED_ATTEMPTS
from streamer.settings import Settings

HARBOR, TERMINAL_BENCH, INSPECT = "harbor", "terminal-bench", "inspect"

NOT_FOR_TERMINAL_BENCH = (
    "Terminal-Bench and fc-eval sort tasks by their expected duration, whatever list they get. So there is "
    "no form of a list for them. Leave the order as it is, or run the tasks with another harness"
)
SEED_BYTES = 4
"""Inspect takes an integer as seed."""


@click.command()
@click.argument("source", metavar="[TASKS]", required=False)
@click.option("--seed", required=True, help="Any text that was not picked by its result, as the run's name.")
@click.option(
    "--attempts",
    type=click.IntRange(1, MAX_PLANNED_ATTEMPTS),
    default=1,
    show_default=True,
    help="Rounds: every task once, then every task again, each round shuffled.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan for `streamer tail --plan FILE`.")
@click.option(
    "--for",
    "harness",
    type=click.Choice([HARBOR, TERMINAL_BENCH, INSPECT]),
    help="Print it as this harness takes it.",
)
@with_settings
def shuffle_command(
    source: str | None, seed: str, attempts: int, as_json: bool, harness: str | None, settings: Settings
) -> None:
    """Print TASKS in a random order, one a line; the same seed gives the same order.

    TASKS is a file with one task a line, a directory with one directory a task, or - for standard input.

    Give the list to the harness before the first trial starts, and declare it:

    \b
      streamer tail RUN_DIR --order-kind shuffled     the harness's files have the order (Harbor)
      streamer tail RUN_DIR --plan PLAN.json          PLAN.json is what --json prints
      publisher.run_started(run_id=..., **plan)       from Python

    --for harbor prints a job configuration: harbor run -c JOB.json. Its tasks are paths of a directory, or
    names ORG/NAME. --for inspect prints the option with which Inspect shuffles by itself, and needs no TASKS.
    Terminal-Bench and fc-eval sort tasks by themselves, so they cannot be given an order.
    """
    if harness is not None and as_json:
        raise click.UsageError("--json and --for exclude each other; the plan is the same for every harness")
    if harness == TERMINAL_BENCH:
        raise click.UsageError(NOT_FOR_TERMINAL_BENCH)
    if harness == INSPECT:
        print_line(f"--sample-shuffle {_number(seed)}")
        return
    if source is None:
        raise click.UsageError("TASKS is missing: a file, a directory, or - for standard input")
    trials = shuffled_rounds(_tasks(source), attempts, seed)
    if harness == HARBOR:
        print_json(orjson.dumps({"tasks": [_harbor_task(source, task) for task, _ in trials]}))
    elif as_json:
        print_json(orjson.dumps(_plan(trials, attempts)))
    else:
        for task, _ in trials:
            print_line(task)


def _tasks(source: str) -> list[str]:
    """The names of the tasks.

    Raises:
        click.UsageError: there are none, or one comes twice.
    """
    if source != "-" and Path(source).is_dir():
        names = [entry.name for entry in Path(source).iterdir() if entry.is_dir()]
        tasks = [name for name in names if not name.startswith(".")]
    else:
        with click.open_file(source, encoding="utf-8") as lines:
            tasks = list(filter(None, map(str.strip, lines)))
    if not tasks:
        raise click.UsageError(f"{source} names no task; write one task a line")
    twice = [task for task, count in Counter(tasks).items() if count > 1]
    if twice:
        raise click.UsageError(
            f"{source} names {twice[0]!r} more than once. Name each task once; --attempts N repeats them"
        )
    return tasks


def _plan(trials: list[tuple[str, int]], attempts: int) -> dict[str, object]:
    """The fields of `run_started` that the list decides."""
    tasks = [task for task, attempt in trials if attempt == 1]
    order = tasks if attempts == 1 else trials
    return {"tasks": tasks, "attempts": attempts, "order": order, "order_kind": "shuffled"}


def _harbor_task(source: str, task: str) -> dict[str, str]:
    """A task as harbor's job configuration names it (`TaskConfig`)."""
    if source != "-" and Path(source).is_dir():
        return {"path": str(Path(source) / task)}
    if task.count("/") == 1:
        return {"name": task}
    raise click.UsageError(
        f"harbor cannot find {task!r}: name the directory that holds the tasks, or tasks as ORG/NAME"
    )


def _number(seed: str) -> int:
    """The seed as a number from 1 on; Inspect takes 0 for no shuffle at all."""
    return int.from_bytes(sha256(seed.encode()).digest()[:SEED_BYTES]) + 1
