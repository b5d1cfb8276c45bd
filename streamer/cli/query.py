"""`streamer query`: current state from Redis; single trials and subtests from the log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import orjson

from streamer.cli.labels import label_option, labels_of
from streamer.cli.leaderboard import leaderboard
from streamer.cli.options import json_option, wide_option, with_settings
from streamer.cli.printing import print_board, print_json, say, visible
from streamer.cli.tables import print_run
from streamer.cli.tables_formulacode import print_payload
from streamer.client.lifecycle import with_state
from streamer.client.reader import StateReader
from streamer.schemas.base import Message
from streamer.schemas.canonical import canonical_json
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

Summary = dict[str, Any]

run_argument = click.argument("run_id", metavar="RUN")


@click.group()
def command() -> None:
    """Ask for current state: runs, agents, tiers, trials, leaderboards."""


@command.command()
@json_option
@wide_option
@with_settings
def runs(as_json: bool, settings: Settings) -> None:
    """All runs, the latest first."""
    with StateReader(settings) as reader:
        found = reader.runs()
    now = datetime.now(UTC)
    if as_json:
        _print_json(with_state(run, now) for run in found)
    else:
        print_board(runs_table(_dumped(found), now), empty="No runs yet.")


@command.command()
@run_argument
@label_option
@json_option
@wide_option
@with_settings
def run(run_id: str, label: str | None, as_json: bool, settings: Settings) -> None:
    """One run: its summary; as tables also its agents and tiers.

    With --by it is broken down by a label of its trials, which folds the run's log again.
    """
    if label is not None:
        groups = labels_of(settings, run_id, label)
        _print_json(groups) if as_json else print_board(labels_table(groups))
        return
    with StateReader(settings) as reader:
        now = datetime.now(UTC)
        if as_json:
            summary = reader.run(run_id)
            _print_json([with_state(summary, now)])
        else:
            found, places = reader.snapshot(run_id), places_of(reader.comparison(run_id).comparison)
            summary = found.run
            print_run(_dumped([summary, *found.agents, *found.tiers]), now, places=places)
    if summary.degraded:
        say(
            f"streamer: this run is in quarantine ({visible(summary.degraded)}): these are its last good "
            "numbers, newer events are not counted. `streamer runs repair` folds it again"
        )


@command.command()
@run_argument
@json_option
@wide_option
@with_settings
def agents(run_id: str, as_json: bool, settings: Settings) -> None:
    """The agents of a run."""
    with StateReader(settings) as reader:
        found = reader.snapshot(run_id)
        places = places_of(reader.comparison(run_id).comparison)
    if as_json:
        _print_json(_published(found.agents))
    else:
        print_board(agents_table(_dumped(found.agents), found.run.primary_metric, places))


@command.command()
@run_argument
@click.option("--by", type=click.Choice(["subtest"]), help="Break the tiers down; folds the run's log again.")
@json_option
@wide_option
@with_settings
def tiers(run_id: str, by: str | None, as_json: bool, settings: Settings) -> None:
    """The tiers of a run: pooled, and each agent:model within them."""
    with StateReader(settings) as reader:
        found = reader.tiers(run_id, within=True)
    broken_down = _by_subtest(settings, run_id) if by else []
    if as_json:
        _print_json(_published(found) + broken_down)
        return
    print_board(*tiers_tables(_dumped(found)), subtests_table(broken_down), empty="This run has no tiers.")


@command.command()
@run_argument
@json_option
@wide_option
@with_settings
def comparisons(run_id: str, as_json: bool, settings: Settings) -> None:
    """The agents of a run compared: where each may truly stand, and every two of them."""
    with StateReader(settings) as reader:
        found = reader.comparison(run_id)
    if as_json:
        _print_json([] if found.comparison is None else _published([found.comparison]))
        return
    print_board(*comparison_tables(found), empty="This run has fewer than two agents to compare.")


@command.command()
@run_argument
@click.option("--task", help="Only this task.")
@click.option("--tier", help="Only this tier.")
@click.option("--agent", help="Only this agent, or agent:model.")
@json_option
@wide_option
@with_settings
def trials(
    run_id: str, task: str | None, tier: str | None, agent: str | None, as_json: bool, settings: Settings
) -> None:
    """The scored trials of a run, from the topic `scored-trials`.

    With --task also what FormulaCode measured in each: benchmarks, tests, why it fell back to baseline.
    """
    from streamer.client.trials import scored_trials  # only this needs a Kafka client

    found = []
    for value in scored_trials(settings, run_id):
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


command.add_command(leaderboard)


def _by_subtest(settings: Settings, run_id: str) -> list[Summary]:
    from streamer.cli.price_tables import price_table  # only this folds
    from streamer.client.breakdowns import subtests

    return subtests(settings, run_id, price_table(settings.prices_file))


def _published(messages: Iterable[Message]) -> list[Summary]:
    """The JSON as published, without the fields that are missing in it."""
    return [message.model_dump(mode="json", exclude_unset=True) for message in messages]


def _dumped(messages: Iterable[Message]) -> list[Summary]:
    """The JSON with every field of this version."""
    return [message.model_dump(mode="json") for message in messages]


def _print_json(objects: Iterable[Summary]) -> None:
    for found in objects:
        print_json(canonical_json(found))
