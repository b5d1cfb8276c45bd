"""The module `boards.js` of the page, made of the declaration that all surfaces share."""

from __future__ import annotations

import orjson

from streamer.views.boards import for_page


def boards_module() -> str:
    """JavaScript that exports BOARDS, the columns by board, and WORDS; see `streamer/views/boards.py`."""
    page = for_page()
    boards, words = (orjson.dumps(page[name]).decode() for name in ("boards", "words"))
    return f"export const BOARDS = {boards};\nexport const WORDS = {words};\n"
