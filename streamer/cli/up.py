"""`streamer up`: everything on this machine, without installing anything else."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.options import with_settings
from streamer.cli.printing import print_line
from streamer.settings import Settings

port_type = click.IntRange(1, 65535)


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the events are kept; default: yours.",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing.")
@click.option("--port", type=port_type, help="Port of the broker; a free one if not given.")
@click.option("--redis-port", type=port_type, help="Port of Redis; likewise.")
@with_settings
def command(
    data: Path | None, ephemeral: bool, port: int | None, redis_port: int | None, settings: Settings
) -> None:
    """Run broker, Redis and a worker on this machine until Ctrl-C; other commands find them by themselves."""
    from streamer.embedded.up import run_up

    if data and ephemeral:
        raise click.UsageError("--data keeps the events, --ephemeral keeps none: give one of them")
    code = run_up(
        settings, data_dir=data, ephemeral=ephemeral, echo=print_line, port=port, redis_port=redis_port
    )
    raise click.exceptions.Exit(code)
