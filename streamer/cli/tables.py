"""Summaries as tables for people; `fold`, `query` and `demo` show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streamer.cli.printing import print_board, print_line
from streamer.cli.tables_formulacode import print_formulacode
from streamer.client.lifecycle import state_of
from streamer.schemas.metrics import BoardMetric
from streamer.views.tables import (
    about,
    agents_table,
    head_lines,
    leaders_table,
    runs_table,
    subtests_table,
    tiers_tables,
    trials_table,
)
from streamer.views.wording import best_first

if TYPE_CHECKING:
    from streamer.client.results import LeaderboardRow

Summary = Mapping[str, Any]


def print_run(
    summaries: Iterable[Summary],
    now: datetime,
    subtests: Sequence[Summary] = (),
    fallbacks: Sequence[Summary] | None = None,
) -> None:
    """Everything about one run: header, agents, FormulaCode's numbers, tiers, subtests.

    Args:
        summaries: the run's.
        now: the time at which its state is determined.
        subtests: its tiers broken down.
        fallbacks: scored trials that fell back to baseline; None where the trials are not at hand.
    """
    by_type: dict[str, list[Summary]] = {}
    for summary in summaries:
        by_type.setdefault(summary["type"], []).append(summary)
    run = next(iter(by_type.get("run_summary", ())), None)
    if run:
        print_header(run, now)
    agents = sorted(by_type.get("agent_model_summary", ()), key=best_first)
    print_agents(agents)
    print_formulacode(run, agents, fallbacks)
    print_tiers(by_type.get("tier_summary", ()))
    print_subtests(subtests)


def print_header(run: Summary, now: datetime) -> None:
    """The run itself: what it is, how far it is, what came out."""
    print_line(" · ".join([f"Run {run['display_name'] or run['run_id']}", *about(run, state_of(run, now))]))
    for line in head_lines(run):
        print_line(f"  {line}")
    print_line()


def print_agents(agents: Iterable[Summary]) -> None:
    """The agents of a run, the highest pass rate first, baselines last."""
    print_board(agents_table(agents))


def print_tiers(tiers: Iterable[Summary]) -> None:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    for table in tiers_tables(tiers):
        print_board(table)


def print_subtests(subtests: Iterable[Summary]) -> None:
    """Tiers broken down by subtest."""
    print_board(subtests_table(subtests))


def print_runs(runs: Sequence[Summary], now: datetime) -> None:
    """Several runs, one line each, in the given order; their states are determined at `now`."""
    print_board(runs_table(runs, now))
    if not runs:
        print_line("No runs yet.")


def print_trials(trials: Sequence[Summary]) -> None:
    """Scored trials, one line each."""
    print_board(trials_table(trials))
    if not trials:
        print_line("No such trials.")


def print_leaderboard(metric: BoardMetric, rows: Sequence[LeaderboardRow]) -> None:
    """A board, in the given order."""
    print_board(leaders_table(metric, rows))
    if not rows:
        print_line(f"Nobody on the board of {metric.name}.")
