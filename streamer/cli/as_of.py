"""`--as-of`: a run folded again up to an earlier position, and what to say of it."""

from __future__ import annotations

from streamer.cli.price_tables import price_table
from streamer.cli.printing import say
from streamer.client.folded_run import FoldedRun, fold_run
from streamer.records import Position
from streamer.settings import Settings


def run_as_of(settings: Settings, run_id: str, as_of: Position) -> FoldedRun:
    """The run as of a position of the log; see `fold_run`. Says so where the log is truncated."""
    found = fold_run(settings, run_id, price_table(settings.prices_file), as_of)
    say_if_truncated(found.log.begins_at)
    return found


def say_if_truncated(begins_at: int) -> None:
    """Say that the log of the run has lost its beginning, if it has."""
    if begins_at:
        say(
            f"the log of this run begins at offset {begins_at:,}, because earlier events were deleted. "
            "If events of the run were among them, they are not counted"
        )
