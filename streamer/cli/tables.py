"""Summaries as tables for people; `fold`, `query` and `demo` show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streamer.cli.printing import dollars, print_line, print_table, shown
from streamer.cli.tables_formulacode import print_formulacode
from streamer.client.lifecycle import state_of
from streamer.schemas.canonical import json_number
from streamer.schemas.metrics import BoardMetric
from streamer.views.tables import (
    Table,
    about,
    agents_table,
    head_lines,
    progress,
    subtests_table,
    tiers_tables,
    trials_table,
)
from streamer.views.wording import accuracy, basis, best_first, grade

if TYPE_CHECKING:
    from streamer.client.results import LeaderboardRow

__all__ = ["progress"]

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
    _print(agents_table(agents))


def print_tiers(tiers: Iterable[Summary]) -> None:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    for table in tiers_tables(tiers):
        _print(table)


def print_subtests(subtests: Iterable[Summary]) -> None:
    """Tiers broken down by subtest."""
    _print(subtests_table(subtests))


def print_runs(runs: Sequence[Summary], now: datetime) -> None:
    """Several runs, one line each, in the given order; their states are determined at `now`."""
    columns = ("run", "benchmark", "state", "trials", "all trials", "cost", "agents", "tiers", "last event")
    rows = (
        [
            *(run["run_id"], run["benchmark"], state_of(run, now), _done(run)),
            *(accuracy(run), dollars(run["total_cost"]), run["agent_models"], run["tiers"]),
            run["last_event_at"],
        ]
        for run in runs
    )
    print_table("Runs", columns, rows, names=3)
    if not runs:
        print_line("No runs yet.")


def print_trials(trials: Sequence[Summary]) -> None:
    """Scored trials, one line each."""
    _print(trials_table(trials))
    if not trials:
        print_line("No such trials.")


def print_leaderboard(metric: BoardMetric, rows: Sequence[LeaderboardRow]) -> None:
    """A board, in the given order."""
    unit = "" if metric.unit == "1" else f", {metric.unit}"
    order = "highest" if metric.higher_is_better else "lowest"
    lines = (
        [
            *(row.rank, row.agent_model, row.run, json_number(row.value), row.trials),
            *(grade(asdict(row)), basis(asdict(row)), row.state),
        ]
        for row in rows
    )
    columns = ("", "agent:model", "run", metric.name, "trials", "grade", "rests on", "run state")
    print_table(f"{metric.name}{unit}: {order} first", columns, lines, names=3)
    if not rows:
        print_line(f"Nobody on the board of {metric.name}.")


def _print(table: Table) -> None:
    print_table(table.title, table.columns, table.rows, names=table.names, note=table.note)


def _done(run: Summary) -> str:
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    return shown(done) if planned is None else f"{shown(done)} of {shown(planned)}"
