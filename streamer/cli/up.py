"""`streamer up`: everything on this machine, without installing anything else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamer.cli.notify_options import URLS, Asked, check_urls, notify_options
from streamer.cli.options import with_settings
from streamer.cli.printing import print_line
from streamer.settings import Settings

if TYPE_CHECKING:
    from streamer.embedded.web_access import WebAccess

PROGRAM = "from streamer.cli import main; main()"
READY_SECONDS, STOP_SECONDS = 90.0, 30.0
"""A command that starts a stack of its own waits for its start, and for its end."""

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
@click.option("--web/--no-web", default=True, show_default=True, help="Also the page with the boards.")
@click.option("--web-port", type=port_type, help="Port of the page; 8720 if not given, or a free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the page; others need --token."
)
@click.option(
    "--token",
    envvar="STREAMER_WEB_TOKEN",
    help="Other machines must know it to open the page. Better in STREAMER_WEB_TOKEN.",
)
@notify_options
@with_settings
def up_command(
    data: Path | None,
    ephemeral: bool,
    port: int | None,
    redis_port: int | None,
    web: bool,
    web_port: int | None,
    host: str,
    token: str | None,
    asked: Asked | None,
    settings: Settings,
) -> None:
    """Run broker, Redis, a worker and a page on this machine until Ctrl-C; other commands find them."""
    if data and ephemeral:
        raise click.UsageError("--data keeps the events, --ephemeral keeps none: give one of them")
    if not web and host != "127.0.0.1":
        raise click.UsageError("--host is the address of the page, and --no-web leaves the page out")
    print_line("Starting broker, Redis and worker (some seconds) ...")
    sys.stdout.flush()
    from streamer.embedded.up import Extra, run_up  # after the line: loading them takes a moment
    from streamer.web.listening import available_port

    chosen = (web_port or available_port()) if web else None
    extra = None
    if asked:
        check_urls(asked)
        argv = [sys.executable, "-c", PROGRAM, "notify", "--all", *asked.arguments()]
        extra = Extra("notices", argv, {URLS: " ".join(asked.urls)})
    code = run_up(
        settings.model_copy(update={"adopt_configuration": True}),  # nobody else would
        data_dir=data,
        ephemeral=ephemeral,
        echo=print_line,
        port=port,
        redis_port=redis_port,
        web_port=chosen,
        web=_access(host, chosen, token) if chosen else None,
        extra=extra,
    )
    raise click.exceptions.Exit(code)


def _access(host: str, port: int, token: str | None) -> WebAccess:
    """Who may open the page, and what to say about it; a host that needs a token has one."""
    from streamer.embedded.web_access import WebAccess
    from streamer.web.addresses import announcement
    from streamer.web.tokens import check_tokens

    check_tokens(host, token, None)
    return WebAccess(host, token, announcement(host, port, token, on_terminal=sys.stdout.isatty()))
