"""`--as-of`: runs folded again up to an earlier position, and what to say of them."""

from __future__ import annotations

from streamer.cli.price_tables import price_table
from streamer.cli.printing import say
from streamer.client.folded_run import FoldedRun, fold_run
from streamer.client.folded_runs import fold_runs
from streamer.client.past_runs import PastRuns
from streamer.fold import CannotBeFolded
from streamer.records import Position
from streamer.settings import Settings


def run_as_of(settings: Settings, run_id: str, as_of: Position) -> FoldedRun:
    """The run as of a position of the log; see `fold_run`. Says so where the log is truncated."""
    found = fold_run(settings, run_id, price_table(settings.prices_file), as_of)
    say_if_truncated(found.log.begins_at)
    return found


def runs_as_of(
    settings: Settings, as_of: Position, run_id: str | None = None, *, tasks: bool = True
) -> PastRuns:
    """All runs, or one, as of a position; see `fold_runs`. Says which are left out or may lack events."""
    found = fold_runs(settings, price_table(settings.prices_file), as_of, run_id, tasks=tasks)
    for whose, begins_at in found.truncated.items():
        say_if_truncated(begins_at, whose)
    for failure in found.failed:
        say(f"left out: {CannotBeFolded(failure)}")
    return found


def say_if_truncated(begins_at: int, whose: str = "this run") -> None:
    """Say that a log has lost its beginning, if it has.

    Args:
        begins_at: offset at which it begins.
        whose: `this run`, or what the log is of.
    """
    if begins_at:
        say(
            f"the log of {whose} begins at offset {begins_at:,}, because earlier events were "
            "deleted. If events that count were among them, they are missing"
        )
