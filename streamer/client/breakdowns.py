"""A run broken down by subtest or by label, from the event log. Folding needs numpy; reading does not."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.by_label import by_label
from streamer.aggregate.by_subtest import by_subtest
from streamer.client.folded_run import fold_run
from streamer.records import Position
from streamer.score import PriceTable
from streamer.settings import Settings


def subtests(
    settings: Settings, run_id: str, prices: PriceTable, as_of: Position | None = None
) -> list[dict[str, Any]]:
    """The tiers of a run by subtest; see `by_subtest`. Raises what :func:`fold_run` raises."""
    return by_subtest(fold_run(settings, run_id, prices, as_of).run.state)


def labelled(
    settings: Settings, run_id: str, label: str, prices: PriceTable, as_of: Position | None = None
) -> list[dict[str, Any]]:
    """The trials of a run by a label of theirs; see `by_label`.

    Raises:
        UnknownLabel: no trial has it.
        others: as :func:`fold_run`.
    """
    return by_label(fold_run(settings, run_id, prices, as_of).run.state, label)
