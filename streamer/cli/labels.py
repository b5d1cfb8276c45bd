"""`--by label:KEY`: break a run down by a label of its trials."""

from __future__ import annotations

from typing import Any

import click

from streamer.records import Position
from streamer.settings import Settings

_PREFIX = "label:"
SUBTEST = "subtest"


def label_key(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """KEY of `label:KEY`; anything else is a usage error."""
    if value is None:
        return None
    if not value.startswith(_PREFIX) or value == _PREFIX:
        raise click.BadParameter(f"{value!r} is not label:KEY, as label:language")
    return value.removeprefix(_PREFIX)


def part(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`subtest`, or `label:KEY` as it is; anything else is a usage error."""
    if value is not None and value != SUBTEST:
        try:
            label_key(context, parameter, value)
        except click.BadParameter:
            raise click.BadParameter(f"{value!r} is neither {SUBTEST} nor label:KEY") from None
    return value


label_option = click.option(
    "--by",
    "label",
    metavar="label:KEY",
    callback=label_key,
    help="Break down by a label of the trials; folds the run's log again.",
)


def labels_of(
    settings: Settings, run_id: str, label: str, as_of: Position | None = None
) -> list[dict[str, Any]]:
    """The groups of a run by label; a usage error where no trial has it."""
    from streamer.aggregate.by_label import UnknownLabel  # only this folds
    from streamer.cli.price_tables import price_table
    from streamer.client.breakdowns import labelled

    try:
        return labelled(settings, run_id, label, price_table(settings.prices_file), as_of)
    except UnknownLabel as error:
        raise click.UsageError(str(error)) from None
