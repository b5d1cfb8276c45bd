"""The module `boards.js` of the page: the boards, words and rules that it draws by."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from streamer.client.lifecycle import NO_PLAN, PLAN_INCOMPLETE
from streamer.schemas.metrics import BOARD_METRICS
from streamer.views import budget, named_columns
from streamer.views.boards import AGENTS, COMPARED, RUNS, TIERS, TRIALS
from streamer.views.columns import Board
from streamer.views.comparison_document import FLIPS, METHODS, STILL_OPEN
from streamer.views.failures import NO_FAILURE
from streamer.views.leaderboard_document import POOLED
from streamer.views.uncertainty import EXPLAINED, PLACES, REASONS, SO_FAR
from streamer.views.wording import BASES, GRADE_MARKS, GRADES, OUTCOMES


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
        "flips": FLIPS,
    }
    words = {
        "bases": BASES,
        "budget": budget.WORDS,
        "compared": METHODS,
        "compared_open": STILL_OPEN,
        "explained": EXPLAINED,
        "grades": GRADES,
        "marks": GRADE_MARKS,
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
        | {"title": column.title[:1].upper() + column.title[1:]}
        | {"left": column.left, "metric": column.name in BOARD_METRICS}
        for column in columns
    ]
