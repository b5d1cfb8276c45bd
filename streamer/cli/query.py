"""`streamer query`: current state from Redis; single trials and subtests from the log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import orjson

from streamer.cli.board_lines import print_board
from streamer.cli.budget import budget_forecast, budget_outlook
from streamer.cli.known_run import scored_of
from streamer.cli.labels import label_option, labels_of
from streamer.cli.leaderboard import leaderboard
from streamer.cli.options import (
    as_of_option,
    as_of_time_option,
    budget_option,
    json_option,
    wide_option,
    with_settings,
)
from streamer.cli.printing import print_json, print_line, say, visible
from streamer.cli.tables import print_run
from streamer.cli.tables_formulacode import print_payload
from streamer.client.lifecycle import with_state
from streamer.client.reader import StateReader
from streamer.client.results import ComparedRun, RunSnapshot
from streamer.records import Position
from streamer.schemas.base import Message
from streamer.schemas.canonical import canonical_json
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from streamer.views.comparisons import comparison_tables
from streamer.views.outlook import places_of
from streamer.views.tables import (
    agents_table,
    labels_table,
    runs_table,
    subtests_table,
    tiers_tables,
    trials_table,
)

if TYPE_CHECKING:
    from streamer.client.folded_run import FoldedRun
    from streamer.client.past_runs import PastRuns

Summary = dict[str, Any]

run_argument = click.argument("run_id", metavar="RUN")


@click.group()
def query_command() -> None:
    """Ask for current state: runs, agents, tiers, trials, leaderboards."""


@query_command.command()
@as_of_time_option
@json_option
@wide_option
@with_settings
def runs(as_of: Position | None, as_json: bool, settings: Settings) -> None:
    """All runs, the latest first."""
    now = datetime.now(UTC)
    if as_of is not None:
        past = _runs_as_of(settings, as_of)
        found, now = past.runs(), past.moment
    else:
        with StateReader(settings) as reader:
            found = reader.runs()
    if as_json:
        _print_json(with_state(run, now) for run in found)
    else:
        print_board(runs_table(_dumped(found), now), empty="No runs yet.")


@query_command.command()
@run_argument
@label_option
@budget_option
@as_of_option
@json_option
@wide_option
@with_settings
def run(
    run_id: str,
    label: str | None,
    budget: float | None,
    as_of: Position | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """One run: its summary; as tables also its agents and tiers.

    With --by it is broken down by a label of its trials. Both --by and --as-of fold the run's log again.
    """
    if label is not None and budget is not None:
        raise click.UsageError("--budget is about the whole run: leave --by out")
    if label is not None:
        groups = labels_of(settings, run_id, label, as_of)
        _print_json(groups) if as_json else print_board(labels_table(groups))
        return
    if as_json and budget is None:
        summary, now = _summary(settings, run_id, as_of)
        _print_json([with_state(summary, now)])
    elif as_json:
        found, now = _snapshot(settings, run_id, as_of)
        summary = found.run
        told = budget_outlook(found, now, budget).budget
        _print_json([with_state(summary, now) | {"budget": told and told.model_dump()}])
    else:
        found, compared, now = _run_now_or_then(settings, run_id, as_of)
        summary = found.run
        rows = _dumped([summary, *found.agents, *found.tiers])
        print_run(rows, now, places=places_of(compared.comparison))
        if budget is not None:
            print_line(budget_forecast(budget_outlook(found, now, budget)))
    if summary.degraded:
        say(
            f"streamer: this run is in quarantine ({visible(summary.degraded)}): these are its last good "
            "numbers, newer events are not counted. `streamer runs repair` folds it again"
        )


@query_command.command()
@run_argument
@as_of_option
@json_option
@wide_option
@with_settings
def agents(run_id: str, as_of: Position | None, as_json: bool, settings: Settings) -> None:
    """The agents of a run."""
    found, compared, _ = _run_now_or_then(settings, run_id, as_of)
    if as_json:
        _print_json(_published(found.agents))
    else:
        places = places_of(compared.comparison)
        print_board(agents_table(_dumped(found.agents), found.run.primary_metric, places))


@query_command.command()
@run_argument
@click.option("--by", type=click.Choice(["subtest"]), help="Break the tiers down; folds the run's log again.")
@as_of_option
@json_option
@wide_option
@with_settings
def tiers(run_id: str, by: str | None, as_of: Position | None, as_json: bool, settings: Settings) -> None:
    """The tiers of a run: pooled, and each agent:model within them."""
    if as_of is not None:
        found = _snapshot(settings, run_id, as_of)[0].tiers
    else:
        with StateReader(settings) as reader:
            found = reader.tiers(run_id, within=True)
    broken_down = _by_subtest(settings, run_id, as_of) if by else []
    if as_json:
        _print_json(_published(found) + broken_down)
        return
    print_board(*tiers_tables(_dumped(found)), subtests_table(broken_down), empty="This run has no tiers.")


@query_command.command()
@run_argument
@as_of_option
@json_option
@wide_option
@with_settings
def comparisons(run_id: str, as_of: Position | None, as_json: bool, settings: Settings) -> None:
    """The agents of a run compared: where each may truly stand, and every two of them."""
    if as_of is not None:
        found = _folded(settings, run_id, as_of).comparison()
    else:
        with StateReader(settings) as reader:
            found = reader.comparison(run_id)
    if as_json:
        _print_json([] if found.comparison is None else _published([found.comparison]))
        return
    print_board(*comparison_tables(found), empty="This run has fewer than two agents to compare.")


@query_command.command()
@run_argument
@click.option("--task", help="Only this task.")
@click.option("--tier", help="Only this tier.")
@click.option("--agent", help="Only this agent, or agent:model.")
@as_of_option
@json_option
@wide_option
@with_settings
def trials(
    run_id: str,
    task: str | None,
    tier: str | None,
    agent: str | None,
    as_of: Position | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """The scored trials of a run, from the topic `scored-trials`.

    With --task also what FormulaCode measured in each: benchmarks, tests, why it fell back to baseline.
    """
    found = []
    values = (
        scored_of(settings, run_id) if as_of is None else _folded(settings, run_id, as_of).scored_trials()
    )
    for value in values:
        trial = orjson.loads(value)
        if (
            task in (None, trial["task_id"])
            and tier in (None, trial["tier"])
            and agent in (None, trial["agent"], trial["agent_model"])
        ):
            found.append(trial)
            if as_json:
                print_json(value)
    if as_json:
        return
    print_board(trials_table(found), empty="No such trials.")
    for trial in found if task else ():
        print_payload(trial)


query_command.add_command(leaderboard)


def _summary(settings: Settings, run_id: str, as_of: Position | None) -> tuple[RunSummary, datetime]:
    """The run's own summary; else as :func:`_snapshot`."""
    if as_of is not None:
        past, moment = _snapshot(settings, run_id, as_of)
        return past.run, moment
    with StateReader(settings) as reader:
        return reader.run(run_id), datetime.now(UTC)


def _snapshot(settings: Settings, run_id: str, as_of: Position | None) -> tuple[RunSnapshot, datetime]:
    """The run from Redis, or from the log as of a position; and the time at which its state is determined."""
    now = datetime.now(UTC)
    if as_of is not None:
        past = _folded(settings, run_id, as_of)
        return past.snapshot(), past.log.moment or now
    with StateReader(settings) as reader:
        return reader.snapshot(run_id), now


def _run_now_or_then(
    settings: Settings, run_id: str, as_of: Position | None
) -> tuple[RunSnapshot, ComparedRun, datetime]:
    """The same with the comparison of the run's agents."""
    now = datetime.now(UTC)
    if as_of is not None:
        past = _folded(settings, run_id, as_of)
        return past.snapshot(), past.comparison(), past.log.moment or now
    with StateReader(settings) as reader:
        return reader.snapshot(run_id), reader.comparison(run_id), now


def _folded(settings: Settings, run_id: str, as_of: Position) -> FoldedRun:
    from streamer.cli.as_of import run_as_of  # only this folds

    return run_as_of(settings, run_id, as_of)


def _runs_as_of(settings: Settings, as_of: Position) -> PastRuns:
    from streamer.cli.as_of import runs_as_of  # only this folds

    return runs_as_of(settings, as_of, tasks=False)


def _by_subtest(settings: Settings, run_id: str, as_of: Position | None) -> list[Summary]:
    from streamer.cli.price_tables import price_table  # only this folds
    from streamer.client.breakdowns import subtests

    return subtests(settings, run_id, price_table(settings.prices_file), as_of)


def _published(messages: Iterable[Message]) -> list[Summary]:
    """The JSON as published, without the fields that are missing in it."""
    return [message.model_dump(mode="json", exclude_unset=True) for message in messages]


def _dumped(messages: Iterable[Message]) -> list[Summary]:
    """The JSON with every field of this version."""
    return [message.model_dump(mode="json") for message in messages]


def _print_json(objects: Iterable[Summary]) -> None:
    for found in objects:
        print_json(canonical_json(found))
