"""One HTML file that includes its styles and data.

Reports, comparisons and leaderboards consist of these parts. The content security policy allows only the
file's own scripts and styles, by hash, and no connections. Text from agents is escaped here.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import repeat
from pathlib import Path
from string import Template
from typing import Any

import orjson

from streamer.schemas.events import NAMED
from streamer.text import visible
from streamer.views.cells import EVENT_TIME
from streamer.views.columns import GRADE_MARKS, OUTCOMES, Column
from streamer.views.drawing import Drawn, h, html_of
from streamer.views.drawing import table as drawn_table
from streamer.views.tables import Document, Table
from streamer.web import STATIC

TEMPLATES = Path(__file__).with_name("templates")
STYLES = ("css/base.css", "css/parts.css", "css/charts.css", "css/trials.css", "vendor/uplot/uPlot.min.css")

_DARK = re.compile(r':root\[data-theme="dark"\] \{(.*?)\n\}', re.DOTALL)


def one_file(document: Document) -> bytes:
    """A document as one self-contained file; its only script keeps the choice of colours."""
    cards = [f"<section>{card(table)}</section>" for table in document.tables if table.rows]
    body = "".join([in_words(document.lines) if document.lines else "", *cards])
    return filled(document.title, document.facts, body, document.foot)


def in_words(lines: Iterable[str]) -> str:
    body = "".join(f"<p>{text(line)}</p>" for line in lines)
    title = "<header><h2>In words</h2></header>"
    return f'<section class="card" aria-label="In words">{title}<div class="body">{body}</div></section>'


def filled(
    title: str,
    facts: Iterable[str],
    body: str,
    foot: str,
    *,
    tiles: str = "",
    data: str = "",
    scripts: Sequence[str] = (),
    module: str = "",
) -> bytes:
    """A self-contained file with this body; head, brand, colours and policy are always the same.

    The title, `facts` and `foot` are texts and are escaped here. `body` and `tiles` (above the body) are
    HTML. `data` is JSON for the scripts, with `<` escaped. The scripts run at the end, the module after them.
    """
    style, theme = style_sheet(), static_file("js/theme.js")
    elements = [f'<script type="application/json" id="data">{data}</script>'] if data else []
    modules = [module] if module else []
    page = Template((TEMPLATES / "one_file.html").read_text(encoding="utf-8")).substitute(
        policy=policy_of([*map(hash_of, (theme, *scripts, *modules))], [hash_of(style)]),
        title=text(title),
        style=style,
        theme=theme,
        heading=name(title),
        facts="".join(f"<span>{name(fact)}</span>" for fact in facts),
        tiles=tiles,
        body=body,
        foot=text(foot),
        scripts="".join(
            [
                *elements,
                *(f"<script>{script}</script>" for script in scripts),
                *(f'<script type="module">{module}</script>' for module in modules),
            ]
        ),
    )
    return page.encode()


Links = Sequence[Mapping[str, str]]
"""The addresses of each row's linked cells, by the name of the column."""


def sheet(
    document: Document,
    links: Links = (),
    *,
    is_ledger: bool = False,
    notice: str = "",
    lead: tuple[str, str] = ("", ""),
) -> bytes:
    """A document as a page of the server, with the page's styles and navigation.

    `links` belong to the rows of the last table. `lead` is the address and text of the link after the notice.
    """
    link = f'<a href="{escape(lead[0])}">{text(lead[1])}</a>'
    said = f'<div class="banner" role="status"><p>{text(notice)} {link}</p></div>' if notice else ""
    sections = [
        card(table, links=links if table is document.tables[-1] else (), below=_paragraphs(table.note))
        for table in document.tables
    ]
    page = Template((TEMPLATES / "sheet.html").read_text(encoding="utf-8")).substitute(
        title=text(document.title),
        heading=name(document.title),
        facts="".join(f"<span>{name(fact)}</span>" for fact in document.facts),
        body="".join([said, _paragraphs("\n".join(document.lines)), *sections]),
        current=' aria-current="page"' if is_ledger else "",
    )
    return page.encode()


def _paragraphs(lines: str) -> str:
    said = "".join(f"<p>{text(line)}</p>" for line in lines.splitlines())
    return f'<div class="note notes said">{said}</div>' if said else ""


def card(table: Table, note: str = "", links: Links = (), below: str = "") -> str:
    below = below or (_paragraphs(table.note) if "\n" in table.note else "")
    title, note = escape(table.title), "" if below else note or table.note
    heads = "".join(f'<th scope="col"{_number(c)}>{escape(c.title)}{_about(c)}</th>' for c in table.columns)
    linked = zip(table.rows, links or repeat({}), strict=False)
    rows = "".join(f"<tr>{''.join(_cells(row, table, to))}</tr>" for row, to in linked)
    empty = "" if table.rows else '<p class="empty">Nothing yet.</p>'
    return (
        f'<div class="card"><header><h2>{title}</h2><span class="note">{text(note)}</span></header>'
        f'<div class="scroll" role="region" aria-label="{title}" tabindex="0"><table>'
        f'<caption class="unseen">{title}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>{empty}</div>{below}</div>"
    )


def drawn_card(title: str, drawn: Drawn, note: str = "") -> str:
    """A drawn table with its title, a note beside it, and its own notes below it."""
    notes = [h("p", {}, line) for line in drawn.notes]
    return html_of(
        h(
            "div",
            {"class": "card"},
            h("header", {}, h("h2", {}, title), h("span", {"class": "note"}, note) if note else None),
            drawn_table(drawn),
            h("div", {"class": "note notes"}, *notes) if notes else None,
        )
    )


def name(value: object) -> str:
    """A name from outside, isolated in its text direction."""
    return f'<bdi class="name">{text(value)}</bdi>'


def text(value: object) -> str:
    r"""A value as text that cannot be markup.

    >>> text("<b>\u202ered")
    '&lt;b&gt;\\u202ered'
    """
    return escape(visible(value))


def style_sheet() -> str:
    """The page's styles; they follow the system's dark mode even without the script that sets a theme."""
    styles = page_styles()
    dark = _DARK.search(styles)
    assert dark, "base.css has no dark theme"
    automatic = f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{{dark[1]}\n}} }}\n"
    return "\n".join([styles, automatic, (TEMPLATES / "one_file.css").read_text(encoding="utf-8")])


def page_styles() -> str:
    return "\n".join(map(static_file, STYLES))


def static_file(path: str) -> str:
    return (STATIC / path).read_text(encoding="utf-8")


def hash_of(content: str) -> str:
    """The hash of a script or style, in the policy's form."""
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def policy_of(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """A content security policy that allows these scripts and styles, by hash, and nothing else."""
    return (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src {' '.join(styles)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _cells(row: Sequence[str], table: Table, links: Mapping[str, str]) -> Iterable[str]:
    for at, (column, value) in enumerate(zip(table.columns, row, strict=True)):
        content = name(value) if column.named else text(value)
        if column.name in links:
            content = f'<a href="{escape(links[column.name])}">{content}</a>'
        label = f' data-label="{text(column.title)}"'
        yield f'<th scope="row">{content}</th>' if at == 0 else f"<td{_number(column)}{label}>{content}</td>"


def _about(column: Column) -> str:
    return f' <span class="about">{escape(column.about)}</span>' if column.about else ""


def _number(column: Column) -> str:
    return "" if column.left else ' class="number"'


# -----------------------------------------------------------------------------
# The module `shared.js`, with which the page and reports draw. It has no imports, so reports contain it
# unchanged.


CHAPTERS = (
    "dom",
    "format",
    "metrics",
    "sorting",
    "drawn",
    "controls",
    "picks",
    "legend",
    "frontier",
    "curves",
    "timechart",
    "charts",
    "matrix",
)
"""Files of `static/js/shared` in the module's order; they share one scope."""


def shared_module() -> str:
    """The module: words as constants, then the chapters."""
    constants = (
        f"export const {name.upper()} = {orjson.dumps(part).decode()};\n"
        for name, part in _for_page().items()
    )
    return "\n".join(["".join(constants), *(static_file(f"js/shared/{one}.js") for one in CHAPTERS)])


def _for_page() -> dict[str, Any]:
    words = {"event_time": EVENT_TIME, "grade_marks": GRADE_MARKS, "outcomes": OUTCOMES}
    return {"words": words, "named": NAMED}
