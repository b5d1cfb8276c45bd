"""The base of both screens: following while they are seen, drawing at a human pace, sorting, filtering."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, Static

from streamer.text import visible
from streamer.watch.context import WatchContext
from streamer.watch.following import Tell, noting
from streamer.watch.help_screen import HelpScreen
from streamer.watch.table import BoardTable

PACE_SECONDS = 0.2
"""What comes within such a span is drawn at once."""

AGES_SECONDS = 5.0
"""How often ages are drawn again while nothing comes. It needs no request."""


class LiveScreen(Screen[None]):
    """A screen that follows something for as long as it is on top.

    Args:
        watching: the application.

    Attributes:
        problems: what is wrong at the moment, by where.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]
    SORTED = "#main"
    """The table that `s` and `r` are about."""

    def __init__(self, watching: WatchContext) -> None:
        super().__init__()
        self.watching = watching
        self.problems: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._drawing = False

    @property
    def now(self) -> datetime:
        """The viewer's time."""
        return self.watching.now()

    def draw(self) -> None:
        """Show how it stands."""
        raise NotImplementedError

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """The work that runs while this screen is on top."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show something at once."""
        self.query_one("#filter", Input).display = False
        self.set_interval(AGES_SECONDS, self.changed)
        self.draw()

    def on_screen_resume(self) -> None:
        """On top (again)."""
        self.call_after_refresh(self._begin)
        self.changed()

    def on_screen_suspend(self) -> None:
        """Covered, or gone."""
        for task in self._tasks:
            task.cancel()

    def on_resize(self) -> None:
        """Lines above the tables depend on the width."""
        self.changed()

    def told(self, where: str) -> Tell:
        """Notes what is wrong there."""
        return noting(self.problems, where, self.changed)

    def changed(self) -> None:
        """Draw soon."""
        if not self._drawing and self.is_attached:
            self._drawing = True
            self.set_timer(PACE_SECONDS, self._draw_now)

    def _begin(self) -> None:
        if self.is_current:
            self._tasks = [self.watching.spawn(work, self.told("here")) for work in self.works()]

    def _draw_now(self) -> None:
        self._drawing = False
        if self.is_current:
            with self.app.batch_update():
                self.draw()

    def put(self, selector: str, text: str, style: str = "") -> None:
        """Text of a line; an empty one takes no room. What agents wrote must have been made visible."""
        line = self.query_one(selector, Static)
        line.update(Text(text, style))
        line.display = bool(text)

    def put_problems(self) -> None:
        """The present problem, if any; then what stands below it may be old, and goes grey."""
        self.put("#session", visible(self.watching.session_line()))
        found = dict.fromkeys([*self.watching.problems.values(), *self.problems.values()])
        self.put("#problem", visible(" ".join(found)) if found else "", "bold red")
        self.set_class(bool(found), "-stale")

    def wanted(self, *texts: str | None) -> bool:
        """Whether one of the texts has what is filtered for."""
        sought = self.query_one("#filter", Input).value.casefold()
        return any(sought in text.casefold() for text in texts if text)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.query_one(self.SORTED, BoardTable).sort_next()

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.query_one(self.SORTED, BoardTable).reverse()

    def action_filter(self) -> None:
        """Let the user write what to filter for."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_help(self) -> None:
        """Say what there is."""
        self.app.push_screen(HelpScreen())

    def close_filter(self) -> bool:
        """Show everything again; False if nothing was filtered."""
        field = self.query_one("#filter", Input)
        if not field.display:
            return False
        field.value = ""
        field.display = False
        self.query_one(self.SORTED, BoardTable).focus()
        self.changed()
        return True

    def on_input_changed(self) -> None:
        """Filter as it is written."""
        self.changed()

    def on_input_submitted(self) -> None:
        """Back to the table; the filter stays."""
        self.query_one(self.SORTED, BoardTable).focus()
