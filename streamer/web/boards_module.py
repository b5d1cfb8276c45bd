"""The module `boards.js` of the page: the boards, words and rules that it draws by."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from streamer.client.lifecycle import NO_PLAN, PLAN_INCOMPLETE
from streamer.schemas.metrics import BOARD_METRICS
from streamer.views import budget, named_columns
from streamer.views.boards import AGENTS, COMPARED, RUNNING, RUNS, TIERS, TRIALS
from streamer.views.columns import Board
from streamer.views.comparison_document import COMPARED_BOARD, FLIPS, METHODS, STILL_OPEN
from streamer.views.failures import NO_FAILURE
from streamer.views.formatting import EVENT_TIME
from streamer.views.leaderboard_document import POOLED
from streamer.views.uncertainty import EXPLAINED, PLACES, REASONS, SO_FAR
from streamer.views.wording import BASES, GRADE_MARKS, GRADES, MARKS, OUTCOMES


def boards_module() -> str:
    """JavaScript that exports BOARDS, WORDS and NAMED."""
    parts = _for_page().items()
    return "".join(f"export const {name.upper()} = {orjson.dumps(part).decode()};\n" for name, part in parts)


def _for_page() -> dict[str, Any]:
    """What the page draws, as JSON values: columns by board, words, and rules of named metrics."""
    boards = {
        "runs": RUNS,
        "agents": AGENTS,
        "tiers": TIERS,
        "trials": TRIALS,
        "leaders": POOLED,
        "compared": COMPARED,
        "comparison": COMPARED_BOARD,
        "flips": FLIPS,
        "running": RUNNING,
    }
    words = {
        "bases": BASES,
        "budget": budget.WORDS,
        "compared": METHODS,
        "compared_open": STILL_OPEN,
        "event_time": EVENT_TIME,
        "explained": EXPLAINED,
        "grades": GRADES,
        "grade_marks": GRADE_MARKS,
        "marks": MARKS,
        "no_failure": NO_FAILURE,
        "no_plan": NO_PLAN,
        "outcomes": OUTCOMES,
        "places": PLACES,
        "plan_incomplete": PLAN_INCOMPLETE,
        "reasons": REASONS,
        "so_far": SO_FAR,
    }
    drawn = {name: _page_columns(board) for name, board in boards.items()}
    return {"boards": drawn, "words": words, "named": named_columns.for_page()}


def _page_columns(board: Board) -> list[dict[str, Any]]:
    kept = ("name", "format", "path", "beside", "sort", "empty", "hint")
    columns = board.shown_on("page")
    return [
        {key: value for key, value in asdict(column).items() if key in kept}
        | {"title": _title(column.title)}
        | {"left": column.left, "metric": column.name in BOARD_METRICS}
        for column in columns
    ]


def _title(title: str) -> str:
    """A title as the page begins it; a symbol such as p stays as it is."""
    return title[:1].upper() + title[1:] if len(title) > 1 else title
