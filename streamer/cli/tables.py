"""A run as tables for people; `fold`, `query` and `demo` show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from streamer.cli.board_lines import print_board
from streamer.cli.printing import print_line
from streamer.cli.tables_formulacode import print_formulacode
from streamer.client.lifecycle import state_of
from streamer.views.tables import (
    about,
    agents_table,
    head_lines,
    subtests_table,
    tiers_tables,
)
from streamer.views.wording import best_first, primary_of

Summary = Mapping[str, Any]


def print_run(
    summaries: Iterable[Summary],
    now: datetime | None,
    subtests: Sequence[Summary] = (),
    fallbacks: Sequence[Summary] | None = None,
    places: Mapping[str, str] | None = None,
) -> None:
    """Everything about one run: header, agents, FormulaCode's numbers, tiers, subtests.

    Args:
        summaries: the run's.
        now: the time at which its state is determined; see `state_of`.
        subtests: its tiers broken down.
        fallbacks: scored trials that fell back to baseline; None where the trials are not at hand.
        places: agent:model to the places that it may truly have; None: not known.
    """
    by_type: dict[str, list[Summary]] = {}
    for summary in summaries:
        by_type.setdefault(summary["type"], []).append(summary)
    run = next(iter(by_type.get("run_summary", ())), None)
    if run:
        _print_header(run, now)
    agents = sorted(by_type.get("agent_model_summary", ()), key=best_first(primary_of(run)))
    print_board(agents_table(agents, primary_of(run), places))
    print_formulacode(run, agents, fallbacks)
    print_board(*tiers_tables(by_type.get("tier_summary", ())), subtests_table(subtests))


def _print_header(run: Summary, now: datetime | None) -> None:
    print_line(" · ".join([f"Run {run['display_name'] or run['run_id']}", *about(run, state_of(run, now))]))
    for line in head_lines(run, now):
        print_line(f"  {line}")
    print_line()
