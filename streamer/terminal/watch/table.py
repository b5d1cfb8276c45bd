"""A table that picks its columns by width, and redraws only changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text
from textual import events
from textual.widgets import DataTable

from streamer.schemas.summaries import RunSummary, State, plan_words, state_and_status
from streamer.terminal.boards import (
    MARKS,
    DrawnColumn,
    Fitted,
    Sort,
    fit,
    gap_of,
    name_of,
    next_sort,
    ordered,
    questions_line,
)
from streamer.text import counted, dollars, estimated, padded, percent, text_width, visible
from streamer.views.cells import bar, largest_k, of_planned, resolved_of, share_of_pass
from streamer.views.columns import accuracy, accuracy_name, pass_owner
from streamer.views.decide.outlook import (
    Eta,
    budget_at,
    budget_words,
    end_words,
    left_at,
    moment_of,
    usd_words,
)

SCROLLBAR = 1
"""Columns left free for the scrollbar, so that nothing moves when it appears."""


MOVES = {"up", "down", "pageup", "pagedown", "home", "end", "ctrl+home", "ctrl+end"}


class BoardTable(DataTable[Text]):
    """A table of one kind of rows.

    Without `sort`, rows stay in their order. With `opens`, a row can be chosen.
    """

    def __init__(self, id: str, *, sort: Sort | None = None, opens: bool = False) -> None:
        super().__init__(
            id=id,
            cell_padding=0,
            cursor_type="row",
            show_cursor=opens,
            show_row_labels=False,
            cursor_foreground_priority="css",
        )
        self.sorting = sort
        self._columns: Sequence[DrawnColumn[Any]] = ()
        self._shown_rows: Sequence[Any] = ()
        self._key: Callable[[Any], str] = str
        self._last: Callable[[Any], bool] | None = None
        self._heads: list[tuple[Fitted, str, str]] = []
        self._keys: list[str] = []
        self._texts: list[list[tuple[str, str]]] = []
        self._moved = False

    def show_rows(
        self,
        columns: Sequence[DrawnColumn[Any]],
        rows: Sequence[Any],
        key: Callable[[Any], str],
        last: Callable[[Any], bool] | None = None,
    ) -> None:
        """Show these rows; `key` identifies a row, and rows that satisfy `last` come last in any order."""
        self._columns, self._shown_rows, self._key, self._last = columns, rows, key, last
        self._redraw()

    def sort_next(self) -> None:
        if self.sorting is not None:
            self.sorting = next_sort(self._columns_with_something(), self.sorting)
            self._redraw()

    def reverse(self) -> None:
        """Reverse the order."""
        if self.sorting is not None:
            self.sorting = Sort(self.sorting.key, not self.sorting.descending)
            self._redraw()

    def sort_by(self, key: str) -> None:
        """Sort by a column, or reverse the order if it is sorted by that column."""
        if self.sorting is None:
            return
        if key == self.sorting.key:
            self.reverse()
        elif column := next((c for c in self._columns if c.key == key and c.value), None):
            self.sorting = Sort(key, column.descending)
            self._redraw()

    @property
    def chosen(self) -> str | None:
        """Key of the row under the cursor."""
        return self._keys[self.cursor_row] if self._keys and self.cursor_row < len(self._keys) else None

    def on_resize(self, event: events.Resize) -> None:
        self._redraw()

    def on_key(self, event: events.Key) -> None:
        """Keep the cursor on its row from now on."""
        self._moved = self._moved or event.key in MOVES

    def on_click(self) -> None:
        self._moved = True

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        event.stop()
        self.sort_by(str(event.column_key.value))

    def _columns_with_something(self) -> list[DrawnColumn[Any]]:
        if not self._shown_rows:
            return [column for column in self._columns if column.rank == 0]
        return [
            column
            for column in self._columns
            if column.rank == 0 or any(column.text(row) != column.empty for row in self._shown_rows)
        ]

    def _redraw(self) -> None:
        width = self.size.width - SCROLLBAR
        if width <= 0 or not self._columns:
            return
        columns = self._columns_with_something()
        rows = list(self._shown_rows)
        if self.sorting is not None:
            rows = ordered(rows, columns, self.sorting, self._last)
        cells = {column.key: [column.text(row) for row in rows] for column in columns}
        heads = {column.key: self._head(column) for column in columns}
        widest = {key: max(map(text_width, [heads[key], *texts])) for key, texts in cells.items()}
        sorted_by = frozenset([self.sorting.key] if self.sorting else [])
        fitted = fit(columns, widest, width, sorted_by)
        by_key = {column.key: column for column in columns}
        texts = [
            [(cells[one.key][index], style(by_key[one.key], row)) for one in fitted]
            for index, row in enumerate(rows)
        ]
        gap = gap_of(width)
        above = questions_line([(by_key[one.key].about(rows), one.width) for one in fitted], gap)
        self.header_height = 2 if above else 1
        drawn, at = [], 0
        for one in fitted:
            size = one.width + (gap if at else 0)
            part = f"{above[at : at + size]:{size}}\n" if above else ""
            drawn.append((one, part, heads[one.key]))
            at += size
        self._put(drawn, list(map(self._key, rows)), texts, by_key)

    def _head(self, column: DrawnColumn[Any]) -> str:
        if self.sorting is None or column.key != self.sorting.key:
            return column.head
        return column.head + MARKS[self.sorting.descending]

    def _put(
        self,
        heads: list[tuple[Fitted, str, str]],
        keys: list[str],
        texts: list[list[tuple[str, str]]],
        columns: dict[str, DrawnColumn[Any]],
    ) -> None:
        gap = gap_of(self.size.width - SCROLLBAR)
        chosen, offset = self.chosen, self.scroll_y

        def cell(index: int, text: str, style: str) -> Text:
            one = heads[index][0]
            column, space = columns[one.key], " " * gap if index else ""
            cut = padded(text, one.width, right=not column.left, prose=column.prose)
            return Text(space + cut, style, no_wrap=True)

        if heads != self._heads:
            self.clear(columns=True)
            self._keys, self._texts = [], []
            for index, (one, above, head) in enumerate(heads):
                label = Text(above, no_wrap=True) + cell(index, head, "")
                self.add_column(label, width=one.width + (gap if index else 0), key=one.key)
            # Without rows, nothing else draws the line of the head.
            self.call_after_refresh(self.refresh, layout=True)
        if keys != self._keys:
            self.clear()
            for key, row in zip(keys, texts, strict=True):
                self.add_row(*(cell(index, *content) for index, content in enumerate(row)), key=key)
            self._keys = keys
            self._go_back(chosen, offset)
        else:
            for number, (before, row) in enumerate(zip(self._texts, texts, strict=True)):
                for index, content in enumerate(row):
                    if before[index] != content:
                        self.update_cell(keys[number], heads[index][0].key, cell(index, *content))
        self._heads, self._texts = heads, texts

    def _go_back(self, chosen: str | None, offset: float) -> None:
        """Restore the view; the cursor stays on its row once the user has moved it, else at the top."""
        if self.show_cursor and self._moved and chosen in self._keys:
            self.move_cursor(row=self._keys.index(chosen), animate=False)
        elif offset:
            self.call_after_refresh(self.scroll_to, y=offset, animate=False, immediate=True)


def style(column: DrawnColumn[Any], row: Any) -> str:
    return column.style(row) if column.style else ""


# -----------------------------------------------------------------------------
# The lines above the tables: a run's name, progress, numbers and cost. Pure.


BAR_LEAST, BAR_MOST = 10, 60


def title_of(run: RunSummary, state: State) -> str:
    """The run, its state, and the end as its harness reported it."""
    about = (run.harness, run.benchmark, run.benchmark_version)
    state_words = state_and_status(state, run.status)
    name = name_of(run) + (f" ({visible(run.run_id)})" if run.display_name else "")
    return " · ".join([name, *(visible(part) for part in about if part), visible(state_words)])


def progress_line(run: RunSummary, pace: Eta, width: int) -> str:
    """A bar and the counts; without a plan only the counts, and the reason."""
    done, planned = run.progress.done, run.progress.planned
    count = f"{of_planned(done, planned)} trial{'s' * ((planned or done) != 1)}"
    count += f", {run.in_flight:,} running" if run.in_flight and run.status is None else ""
    if pace.share is None:
        return ", ".join(filter(None, [count if run.in_flight else f"{count} in", plan_words(run)]))
    text = f"{percent(pace.share)}  {count}"
    return f"{bar(pace.share, max(BAR_LEAST, min(BAR_MOST, width - len(text) - 2)))}  {text}"


def end_line(run: RunSummary, pace: Eta, now: datetime) -> str:
    """Forecast of the run's end; "" if unknown, or if the run is over."""
    at = moment_of(run.last_event_at, now)
    left = left_at(pace.seconds_left, run.last_event_at, at)
    return "" if at is None or left is None or not left.high else end_words(at, left)


def outcome_line(run: RunSummary, width: int) -> str:
    """Accuracy, the first and last pass@k, and as much more as fits."""
    parts = [f"{accuracy_name(run)} {accuracy(run)}"]
    if run.pass_at_k is None:
        parts += [f"pass@k {pass_owner(run)}"] if run.verdict_trials != 0 else []
    elif "1" in run.pass_at_k:
        parts.append(f"pass@1 {share_of_pass(run.pass_at_k, '1')}")
    if most := largest_k(run.pass_at_k):
        parts.append(f"pass@{most} {share_of_pass(run.pass_at_k, most)}")
    parts.append(
        resolved_of(run.resolved, run.trials, run.verdict_trials).replace(" trials resolved", " resolved")
    )
    if run.no_verdict:
        parts.append(f"{run.no_verdict:,} no verdict")
    parts.append(counted(run.tasks, "task"))
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)


def budget_line(run: RunSummary, pace: Eta, budget_usd: float | None, now: datetime) -> str:
    """Forecast for the budget; "" without one."""
    if budget_usd is None:
        return ""
    at = moment_of(run.last_event_at, now)
    return budget_words(budget_at(budget_usd, run, pace, at), at)


def cost_line(run: RunSummary, pace: Eta) -> str:
    """Cost so far, burn rate and projected total."""
    if run.total_cost is None:
        return "cost unknown"
    parts = [f"cost {dollars(run.total_cost)}"]
    if pace.usd_per_hour is not None:
        parts.append(f"{dollars(pace.usd_per_hour)} per hour")
    if pace.projected_usd is not None and pace.projected_usd.high > pace.projected_usd.low:
        parts.append(usd_words(pace.projected_usd))
    parts.append(estimated(run.estimated_cost, run.total_cost))
    return " · ".join(filter(None, parts))
