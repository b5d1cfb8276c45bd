"""`streamer simulate`: write a run directory as a harness does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.cli.options import FiniteRange, with_settings
from streamer.cli.printing import say
from streamer.settings import Settings
from streamer.simulate import LAYOUTS, SHUFFLES, simulate_run
from streamer.text import counted


@click.command()
@click.option("--layout", type=click.Choice(list(LAYOUTS)), required=True, help="Whose directory to write.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The run directory; its name is the run's id.",
)
@click.option("--trials", type=click.IntRange(min=1), default=40, show_default=True, help="How many.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of everything random.")
@click.option(
    "--pace",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds that a trial takes on average; failures take twice as long as passes.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Trials that run at once."
)
@click.option("--shuffle", is_flag=True, help=f"Start the tasks in a random order; for {SHUFFLES} only.")
@with_settings
def simulate_command(
    layout: str,
    out: Path,
    trials: int,
    seed: int,
    pace: float,
    concurrency: int,
    shuffle: bool,
    settings: Settings,
) -> None:
    """Write a run directory as a harness does: trial by trial, in place, with crashes, timeouts, retries.

    A trial's directory appears when it starts, its result when it ends. Point `streamer tail` at the run
    directory while it is being written.
    """
    if shuffle and layout != SHUFFLES:
        raise click.UsageError(f"--shuffle is for {SHUFFLES}; {layout} starts tasks in an order of its own")
    if out.exists() and any(out.iterdir()):
        raise click.UsageError(f"--out {out} is not empty; name a new directory")
    simulate_run(
        layout,
        out,
        trials,
        seed=seed,
        start=datetime.now(UTC),
        pace_seconds=pace,
        concurrency=concurrency,
        shuffle=shuffle,
    )
    say(f"{counted(trials, 'trial')} written to {out}")
