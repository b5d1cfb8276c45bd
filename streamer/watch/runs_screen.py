"""The first screen: all runs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from streamer.client.change_feed import StateUpdate
from streamer.client.results import ReaderError
from streamer.text import counted, visible
from streamer.views.boards import RUNS
from streamer.views.models import RunNow
from streamer.watch.boards import board_columns
from streamer.watch.columns import Sort
from streamer.watch.context import WatchContext
from streamer.watch.following import follow_state
from streamer.watch.live_screen import LiveScreen
from streamer.watch.model import Runs
from streamer.watch.run_screen import RunScreen
from streamer.watch.table import BoardTable

MOST_RUNS = 500
"""So many runs are listed; a filter finds the others."""


class RunsTable(BoardTable):
    """Its rows can be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]


class RunsScreen(LiveScreen):
    """The runs, the one with the latest event first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", show=False)]

    def __init__(self, watching: WatchContext) -> None:
        super().__init__(watching)
        self.model = Runs()
        self._filled = False

    def compose(self) -> ComposeResult:
        """Title, runs, and what was rejected."""
        yield Static(id="title", markup=False)
        yield Static(id="session", markup=False)
        yield Static(id="problem", markup=False)
        yield RunsTable("main", sort=Sort("last", True), opens=True)
        yield Static(id="note", markup=False)
        yield Input(id="filter", placeholder="filter runs by name or benchmark", compact=True)
        yield Footer(show_command_palette=False)

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """Follow all runs."""
        return [self._fill(), follow_state(self.watching.reader, None, self._take, self.told("state"))]

    def draw(self) -> None:
        """Show how the runs stand."""
        now = self.now
        runs = [run for run in self.model.runs.values() if self.watching.shows(run.run_id)]
        wanted = [run for run in runs if self.wanted(run.run_id, run.display_name, run.benchmark)]
        wanted.sort(key=lambda run: (run.last_event_at is not None, run.last_event_at), reverse=True)
        lines = [RunNow.of(run, now) for run in wanted[:MOST_RUNS]]
        self.query_one("#main", BoardTable).show_rows(board_columns(RUNS, now), lines, lambda run: run.run_id)
        self.put("#title", " · ".join([self.watching.where, self._count(len(runs)), *self.watching.crew()]))
        self.put("#note", self._note(len(wanted)))
        self.put_problems()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run."""
        if event.row_key.value is not None:
            self.app.push_screen(RunScreen(self.watching, event.row_key.value))

    def action_back(self) -> None:
        """Show everything again."""
        self.close_filter()

    async def _fill(self) -> None:
        """The runs alone are read faster than all that belongs to them."""
        try:
            self.model.fill(await self.watching.reader.runs())
        except ReaderError:
            return  # told by those who follow
        self._filled = True
        self.changed()

    def _take(self, update: StateUpdate) -> None:
        self.model.take(update)
        if update.kind == "run":
            self.changed()

    def _count(self, count: int) -> str:
        if not count:
            return "no runs yet: waiting" if self._filled else "looking for runs"
        return counted(count, "run")

    def _note(self, wanted: int) -> str:
        parts = []
        if wanted > MOST_RUNS:
            parts.append(f"{wanted - MOST_RUNS:,} older runs are not listed: / finds them")
        rejections = self.watching.rejections
        if rejections.problem:
            parts.append(f"rejections unknown: {rejections.problem}")
        elif count := rejections.counts.total():
            parts.append(f"{count:,} rejection{'s' * (count != 1)} in the log (streamer rejections list)")
        return visible(" · ".join(parts)) if parts else ""
