"""Boards while a command works: the screens of `streamer watch` on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamer.cli.printing import percent, print_line, say, shown, visible
from streamer.client.reader import StateReader
from streamer.settings import Settings
from streamer.views.tables import progress
from streamer.views.wording import best_first, primary_of

LOOK_SECONDS = 0.1
LINES_SECONDS = 4.0
"""How often a line is printed where there is no terminal."""

SHOWN_RUNS = 3

Summary = dict[str, Any]


class Messages:
    """Messages to the user: on stderr, and while the screens have the terminal first as notes on these."""

    def __init__(self) -> None:
        self._held: list[str] | None = None
        self._noted = 0
        self._lock = threading.Lock()

    def say(self, line: str) -> None:
        """Say one line; from any thread."""
        with self._lock:
            if self._held is None:
                say(line)
            else:
                self._held.append(line)

    def new(self) -> list[str]:
        """The held lines since the last call."""
        with self._lock:
            lines = (self._held or [])[self._noted :]
            self._noted += len(lines)
            return lines

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lines while the block runs, and print them after it."""
        with self._lock:
            self._held, self._noted = [], 0
        try:
            yield
        finally:
            with self._lock:
                lines, self._held = self._held or [], None
            for line in lines:
                say(line)


def on_terminal() -> bool:
    """True if input and output are a terminal, so that screens can be shown and have keys."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def show_screens(
    settings: Settings,
    is_over: Callable[[], bool],
    messages: Messages,
    *,
    shows: Callable[[str], bool] = lambda _: True,
    opens: Callable[[], str | None] = lambda: None,
    line: Callable[[], str] = str,
) -> None:
    """Show the screens of `streamer watch` until the work is over, or the user quits them.

    Args:
        settings: where Redis and the broker are.
        is_over: True once the work is over.
        messages: what the work says meanwhile.
        shows: whether a run, by its id, belongs to the work.
        opens: the run whose screen is opened as soon as this names one.
        line: stands below the title of every screen; "": nothing does.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    from streamer.watch.app import run_watch
    from streamer.watch.context import Session

    with messages.held():
        interrupted = run_watch(settings, None, Session(is_over, messages.new, shows, opens, line))
    if interrupted:
        raise KeyboardInterrupt


def print_lines(reader: StateReader, is_over: Callable[[], bool]) -> None:
    """Print how the latest runs stand every few seconds until the work is over."""
    lines = _Lines(reader)
    while not is_over():
        lines.look()
        time.sleep(LOOK_SECONDS)


class _Lines:
    """A line for each of the latest runs, and one for each grade that changed since the last look."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._grades: dict[tuple[str, str], str | None] = {}
        self._start = time.monotonic()
        self._due = 0.0

    def look(self) -> None:
        """Look and print, if it is time."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LINES_SECONDS
        found = self._reader.runs()[:SHOWN_RUNS]
        changes = []
        for run in sorted((run.model_dump(mode="json") for run in found), key=lambda run: run["run_id"]):
            run_id = run["run_id"]
            agents = [agent.model_dump(mode="json") for agent in self._reader.agents(run_id)]
            tiers = [tier.model_dump(mode="json") for tier in self._reader.tiers(run_id)]
            ahead = _best(agents, primary_of(run))
            print_line(f"{now - self._start:3.0f} s  {run_id}: {progress(run)}; ahead: {ahead}")
            for group in (*agents, *tiers):
                changes += self._changed(run_id, group.get("tier") or group["agent_model"], group["grade"])
        for change in changes:
            print_line(f"       {change}")
        sys.stdout.flush()

    def _changed(self, run_id: str, who: str, grade: str | None) -> list[str]:
        before = self._grades.get((run_id, who))
        self._grades[run_id, who] = grade
        return [] if before in (None, grade) else [f"{run_id} {who}: grade {before} -> {shown(grade)}"]


def _best(agents: list[Summary], primary: str) -> str:
    contestants = [agent for agent in agents if not agent["baseline"]]
    if not contestants:
        return shown(None)
    best = min(contestants, key=best_first(primary))
    rate = best["statistics"]["pass_rate"]["mean"]
    return f"{visible(best['agent_model'])} with pass rate {percent(rate)}"
