"""What one sees of the demo: the screens of `watch` on a terminal until `q`, elsewhere a line a moment."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

from streamer.cli.boards import LOOK_SECONDS, Messages, on_terminal, print_lines, show_screens
from streamer.cli.demo_browser import open_page
from streamer.cli.demo_moments import Moments
from streamer.cli.printing import print_line
from streamer.client.reader import StateReader
from streamer.client.results import UnknownRun
from streamer.settings import Settings

COLUMNS = 100
MOST_LINES = 9
"""So many lines of moments, so that all of the demo's output is one screen of 24 lines."""


def show(
    settings: Settings,
    reader: StateReader,
    run_id: str | None,
    page: str,
    work: Future[Any],
    messages: Messages,
    *,
    browser: bool,
) -> None:
    """Show the work until it is over; on a terminal until the user presses `q`, however long.

    Args:
        settings, reader: of the stack.
        run_id: the run that it is about; None: several.
        page: address of the stack's page.
        work: what publishes.
        messages: what it says meanwhile.
        browser: open the page on a terminal, where there is a browser.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    if not on_terminal():
        if run_id is None:
            print_lines(reader, work.done)
        else:
            print_moments(reader, run_id, work)
        return
    address = f"{page}#/run/{run_id}" if run_id else page
    given_up = threading.Event()
    if browser:
        threading.Thread(target=open_page, args=(address, given_up), daemon=True).start()

    def line() -> str:
        if work.done():
            return f"The benchmark is over. q ends the demo · {address}"
        return f"In a browser: {address} · q ends the demo"

    try:
        show_screens(
            settings,
            lambda: work.done() and work.exception() is not None,
            messages,
            opens=lambda: run_id,
            line=line,
        )
    finally:
        given_up.set()


def print_moments(reader: StateReader, run_id: str, work: Future[Any]) -> None:
    """Print a line for each moment of the run, until the work is over."""
    moments, start, printed = Moments(), time.monotonic(), 0
    over = False
    while not over:
        over = work.done()
        with suppress(UnknownRun):
            found, compared = reader.snapshot(run_id), reader.comparison(run_id)
            for moment in moments.news(found, compared, datetime.now(UTC)):
                lines = wrap(
                    f"{time.monotonic() - start:3.0f} s  {moment}", COLUMNS, subsequent_indent=" " * 7
                )
                if printed + len(lines) <= MOST_LINES:
                    printed += len(lines)
                    for line in lines:
                        print_line(line)
            sys.stdout.flush()
        time.sleep(LOOK_SECONDS)
