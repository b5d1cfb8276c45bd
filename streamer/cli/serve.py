"""`streamer serve`: live boards in a browser, and a JSON API."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.cli.options import with_settings
from streamer.cli.printing import print_line
from streamer.settings import Settings


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --token."
)
@click.option("--port", type=click.IntRange(1, 65535), help="8720 if not given, or a free one.")
@click.option(
    "--token",
    envvar="STREAMER_WEB_TOKEN",
    help="Whoever looks must know it. Better in STREAMER_WEB_TOKEN: others see a command line.",
)
@click.option(
    "--publish-token",
    envvar="STREAMER_WEB_PUBLISH_TOKEN",
    help="Programs that POST events must know it. Without any token only this machine may publish.",
)
@click.option("--host-name", "host_names", multiple=True, help="Further name that the server is called by.")
@click.option(
    "--connections-per-address",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Connections that one address may have. A proxy is one address.",
)
@click.option(
    "--artifacts",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of a run, or above some: the page shows logs and trajectories in it. Repeatable.",
)
@with_settings
def serve_command(
    host: str,
    port: int | None,
    token: str | None,
    publish_token: str | None,
    host_names: tuple[str, ...],
    connections_per_address: int,
    artifacts: tuple[Path, ...],
    settings: Settings,
) -> None:
    """Show live boards in a browser, with a JSON API (/api/openapi.json), until Ctrl-C.

    The API also takes events: POST /api/events.
    """
    from streamer.web.server import run_server

    run_server(
        settings,
        host=host,
        port=port,
        token=token,
        publish_token=publish_token,
        host_names=host_names,
        connections_per_address=connections_per_address,
        artifacts=artifacts,
        echo=print_line,
    )
