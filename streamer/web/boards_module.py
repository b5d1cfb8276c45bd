"""The module `boards.js` of the page, made of the declaration that all surfaces share."""

from __future__ import annotations

import orjson

from streamer.views.page_boards import for_page


def boards_module() -> str:
    """JavaScript that exports BOARDS, WORDS and NAMED; see `for_page` in `streamer/views/page_boards.py`."""
    parts = for_page().items()
    return "".join(f"export const {name.upper()} = {orjson.dumps(part).decode()};\n" for name, part in parts)
