"""`streamer config`: which prices, profiles and formulas the workers publish with."""

from __future__ import annotations

import asyncio

import click

from streamer.cli.options import json_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import print_json, print_table, say
from streamer.ops.configuration import Configurations, adopt, read_configurations
from streamer.schemas.canonical import canonical_json
from streamer.score import made_with
from streamer.settings import Settings


@click.group()
def config_command() -> None:
    """One configuration for all workers: their prices, grading profiles and formulas.

    Each summary names, as `made_with`, the fingerprint of the configuration behind its numbers. Workers
    with another one than the group's wait.
    """


@config_command.command("show")
@json_option
@with_settings
def show_configuration(as_json: bool, settings: Settings) -> None:
    """Show which configuration is current, which the workers have, and which this command has."""
    found, own = read_configurations(settings), made_with(price_table(settings.prices_file))
    if as_json:
        print_json(canonical_json({"current": found.current, "this_command": own, "workers": found.workers}))
        return
    rows = [("current", found.current), ("this command", own)]
    rows += [(f"worker {worker}", has) for worker, has in sorted(found.workers.items())]
    print_table("Configurations", ("of", "fingerprint"), rows, left=range(2))


@config_command.command("adopt")
@click.argument("fingerprint", required=False)
@with_settings
def adopt_(fingerprint: str | None, settings: Settings) -> None:
    """Make a configuration current: this command's own (its version and prices file), or FINGERPRINT.

    Workers that have it begin, and publish every run again by it. Workers that have another one end;
    started again, they wait.
    """
    found, own = read_configurations(settings), made_with(price_table(settings.prices_file))
    wanted = fingerprint or own
    known = {own, *found.workers.values()}
    if wanted not in known:
        raise click.UsageError(
            f"neither this command nor a live worker has the configuration {wanted!r}; "
            f"they have {', '.join(sorted(known))}"
        )
    if wanted == found.current:
        say(f"{wanted} is current already")
        return
    asyncio.run(adopt(settings, wanted))
    say(f"{wanted} is current now; {_who(found, wanted)}")


def _who(found: Configurations, wanted: str) -> str:
    ready = sum(has == wanted for has in found.workers.values())
    ending = len(found.workers) - ready
    return f"{ready} live workers have it, {ending} have another one and end"
