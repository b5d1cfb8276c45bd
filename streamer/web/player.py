"""The player of a terminal's recording: a page of its own, in a sandbox with a policy of its own.

It has no origin, no cookies and no way to reach any server. Its policy allows the scripts and styles that
stand in it, by their hashes, and nothing else. The recording stands in it as JSON that cannot end its
element.
"""

from __future__ import annotations

from functools import cache
from html import escape

from starlette.responses import Response

from streamer.schemas.canonical import canonical_json
from streamer.text import visible
from streamer.web import STATIC
from streamer.web.one_file import hash_of

_VENDORED = STATIC / "vendor" / "asciinema-player"
_START = (
    'const recorded = JSON.parse(document.getElementById("recorded").textContent);\n'
    'AsciinemaPlayer.create({ data: recorded }, document.getElementById("player"), '
    '{ fit: "width", preload: true, idleTimeLimit: 2 });\n'
)
_STYLE = "html,body{margin:0;background:#121314}\n"


def player(recording: str, name: str) -> Response:
    """The page that plays a recording.

    Args:
        recording: the contents of the `.cast` file.
        name: for the title.
    """
    style, script, policy = _fixed()
    data = canonical_json(recording).decode().replace("<", "\\u003c")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(visible(name))}</title>'
        f'<style>{style}</style><div id="player"></div>'
        f'<script type="application/json" id="recorded">{data}</script>'
        f"<script>{script}</script></html>"
    )
    headers = {
        "content-security-policy": policy,
        "x-frame-options": "SAMEORIGIN",
        "cache-control": "no-store",
    }
    return Response(page, media_type="text/html", headers=headers)


@cache
def _fixed() -> tuple[str, str, str]:
    """Style, script and policy: the same for every recording."""
    licence = (_VENDORED / "LICENSE").read_text(encoding="utf-8").strip()
    code = (_VENDORED / "asciinema-player.min.js").read_text(encoding="utf-8")
    style = (_VENDORED / "asciinema-player.css").read_text(encoding="utf-8") + _STYLE
    script = f"/*\n{licence}\n*/\n{code}\n{_START}"
    policy = (
        "default-src 'none'",
        f"script-src {hash_of(script)} 'wasm-unsafe-eval'",
        f"style-src {hash_of(style)}",
        "font-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    )
    return style, script, "; ".join(policy)
