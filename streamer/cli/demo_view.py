"""The view of the demo while results come in: boards on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from streamer.cli.printing import console, dollars, percent, print_line, shown, visible
from streamer.cli.tables import progress
from streamer.client.reader import StateReader
from streamer.views.wording import basis, best_first, marked_grade

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

POLL_SECONDS = 1.0
LINES_SECONDS = 4.0
"""How often a line is printed where there is no terminal."""

SHOWN_RUNS = 3
SHOWN_NEWS = 5

Summary = dict[str, Any]


class View(Protocol):
    """Shows where the boards stand."""

    def look(self) -> None:
        """Called again and again; looks and shows when it is time."""


class Boards:
    """The latest runs with their agents, as Redis has them, and the grades that moved since the last look."""

    def __init__(self, reader: StateReader) -> None:
        self.runs: list[Summary] = []
        self.agents: dict[str, list[Summary]] = {}
        self.tiers: dict[str, list[Summary]] = {}
        self.news: deque[str] = deque(maxlen=SHOWN_NEWS)
        self._reader = reader
        self._grades: dict[tuple[str, str], str | None] = {}
        self._due = 0.0

    def refresh(self, every: float) -> bool:
        """Look again, if the last look was so many seconds ago; True if it was."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + every
        found = self._reader.runs()[:SHOWN_RUNS]
        self.runs = sorted((run.model_dump(mode="json") for run in found), key=lambda run: run["run_id"])
        for run in self.runs:
            run_id = run["run_id"]
            self.agents[run_id] = [a.model_dump(mode="json") for a in self._reader.agents(run_id)]
            self.tiers[run_id] = [t.model_dump(mode="json") for t in self._reader.tiers(run_id)]
            for group in (*self.agents[run_id], *self.tiers[run_id]):
                self._note(run_id, group.get("tier") or group["agent_model"], group["grade"])
        return True

    def _note(self, run_id: str, who: str, grade: str | None) -> None:
        before = self._grades.get((run_id, who))
        if before is not None and before != grade:
            self.news.append(f"{run_id} {who}: grade {before} -> {shown(grade)}")
        self._grades[run_id, who] = grade


@contextmanager
def view_of(reader: StateReader) -> Iterator[View]:
    """Boards that change in place on a terminal; lines otherwise."""
    boards = Boards(reader)
    if not sys.stdout.isatty():
        yield _Lines(boards)
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False, transient=True) as live:
        yield _Live(boards, live)


class _Lines:
    def __init__(self, boards: Boards) -> None:
        self._boards = boards
        self._start = time.monotonic()

    def look(self) -> None:
        """A line for each run, and one for each grade that moved."""
        if not self._boards.refresh(LINES_SECONDS):
            return
        seconds = time.monotonic() - self._start
        for run in self._boards.runs:
            best = _best(self._boards.agents[run["run_id"]])
            print_line(f"{seconds:3.0f} s  {run['run_id']}: {progress(run)}; ahead: {best}")
        while self._boards.news:
            print_line(f"       {self._boards.news.popleft()}")
        sys.stdout.flush()


class _Live:
    def __init__(self, boards: Boards, live: Any) -> None:
        self._boards = boards
        self._live = live

    def look(self) -> None:
        """The boards, in place."""
        if self._boards.refresh(POLL_SECONDS):
            self._live.update(_screen(self._boards), refresh=True)


def _screen(boards: Boards) -> Group:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for run in boards.runs:
        done = f"{progress(run)}, cost {dollars(run['total_cost'])}"
        parts += [Text(f"{visible(run['display_name'] or run['run_id'])} · {done}", style="bold")]
        parts += [_table("agent:model", boards.agents[run["run_id"]], "agent_model")]
        if boards.tiers[run["run_id"]]:
            parts.append(_table("tier", boards.tiers[run["run_id"]], "tier"))
    parts += [Text(visible(news), style="yellow") for news in boards.news]
    return Group(*parts)


def _table(title: str, groups: list[Summary], name: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate((title, "trials", "pass rate", "grade", "rests on", "cost of pass")):
        table.add_column(column, justify="right" if index else "left", min_width=40 if not index else None)
    for group in sorted(groups, key=best_first) if name == "agent_model" else groups:
        rate = percent(group["statistics"]["pass_rate"]["mean"])
        numbers = (rate, marked_grade(group), basis(group), dollars(group["cost_of_pass"]))
        table.add_row(*map(Text, (visible(group[name]), shown(group["trials"]), *numbers)))
    return table


def _best(agents: list[Summary]) -> str:
    contestants = [agent for agent in agents if not agent["baseline"]]
    if not contestants:
        return shown(None)
    best = min(contestants, key=best_first)
    rate = best["statistics"]["pass_rate"]["mean"]
    return f"{visible(best['agent_model'])} with pass rate {percent(rate)}"
