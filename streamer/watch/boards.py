"""The columns of `streamer/views/boards.py` as columns of the screens, with colours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.text import visible
from streamer.views.boards import AGENTS
from streamer.views.cells import short, sort_value
from streamer.views.columns import Board, Column
from streamer.views.formatting import age
from streamer.views.named_columns import with_named
from streamer.watch.columns import BoardColumn, Sort

if TYPE_CHECKING:
    from streamer.ops.rejections import StoredRejection

GOOD, BAD, FAIR = "green", "red", "yellow"
_GRADES = {"S": f"bold {GOOD}", "A": GOOD, "B": "cyan", "C": "cyan", "D": FAIR, "F": BAD}
_STATES = {"running": "cyan", "stalled": BAD, "finished": FAIR, "complete": GOOD, "unfinished": FAIR}
_OUTCOMES = {"passed": GOOD, "failed": BAD, "fell_back": FAIR, "no_verdict": FAIR}

_STYLES: dict[str, Callable[[Any], str]] = {
    "agent": lambda row: "dim" if getattr(row, "baseline", False) else "",
    "grade": lambda row: _GRADES.get(row.grade or "", ""),
    "letter": lambda row: _GRADES.get(row.grade or "", ""),
    "outcome": lambda row: _OUTCOMES[row.outcome],
    "state": lambda row: _STATES[row.state],
}


def board_columns(board: Board, now: datetime, head: str = "") -> list[BoardColumn[Any]]:
    """The columns of a board on a screen.

    Args:
        board: which.
        now: what ages count from.
        head: above the first column instead of its title; "": its title.
    """
    first, *others = board.shown_on("terminal")
    return [_on_screen(first, now, head or first.title), *(_on_screen(c, now, c.title) for c in others)]


def heading(board: Board, count: int) -> str:
    """The head of a table that stands below others: what it is, and how many rows it has."""
    return f"{board.title.lower()} ({count})"


def first_sort(primary: str, agents: Sequence[AgentModelSummary]) -> Sort:
    """By the run's primary metric; one without a column gives way to the pass rate."""
    sorts = {column.name: column.sort for column in with_named(AGENTS, agents).shown_on("terminal")}
    return Sort(primary, sorts[primary] == "greatest") if sorts.get(primary) else Sort(PRIMARY_METRIC, True)


def name_of(run: RunSummary) -> str:
    """The run's name for people, or its id, fit for showing."""
    return visible(run.display_name or run.run_id)


def rejection_columns(head: str, nameless: int, now: datetime) -> list[BoardColumn[StoredRejection]]:
    """The columns of the newest rejections.

    Args:
        head: of the first column: what the table is, or what is wrong with it.
        nameless: how many rejections name no run.
        now: what ages count from.
    """
    wrong = f"what is wrong ({nameless:,} more name no run)" if nameless else "what is wrong"
    return [
        BoardColumn("code", head, lambda r: visible(r.message.code), 0, least=16, left=True),
        BoardColumn("at", "when", lambda r: age(_rejected_at(r, now), now), 2),
        BoardColumn(
            "message", wrong, lambda r: visible(r.message.message), 0, least=20, left=True, prose=True
        ),
    ]


def _on_screen(column: Column, now: datetime, head: str) -> BoardColumn[Any]:
    return BoardColumn(
        column.name,
        head,
        lambda row: short(column, row, now),
        column.rank,
        value=partial(sort_value, column) if column.sort else None,
        descending=column.sort == "greatest",
        least=column.least,
        left=column.left,
        style=_STYLES.get(column.format),
        empty=column.empty,
    )


def _rejected_at(rejected: StoredRejection, now: datetime) -> datetime:
    return datetime.fromtimestamp(rejected.timestamp_ms / 1000, now.tzinfo)
