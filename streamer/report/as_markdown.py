"""A run as Markdown that GitHub shows as it is meant.

Names from agents and harnesses stand in `<code>`, their punctuation as character references. So they are no
link, no markup and no cell border. GitHub looks for mentions in the decoded text outside of `<code>`: what
stands there has an invisible space behind each sign that would make one.
"""

from __future__ import annotations

import re

from streamer.report.data import RunData
from streamer.text import UNSEEN, shown, visible
from streamer.views.columns import Column
from streamer.views.tables import (
    Document,
    Table,
    about,
    agents_table,
    failures_table,
    formulacode_table,
    head_lines,
    labels_table,
    tiers_tables,
)
from streamer.views.wording import primary_of

PLAIN = frozenset(" -.:/;@,%()$")
"""Punctuation that means nothing inside a line, unless it makes an address."""

_MENTION = re.compile(r"@|&#64;|&#35;|GH(?:-|&#45;)", re.IGNORECASE)
"""What begins a mention of a person, a team, an issue or a pull request, once escaped."""

NO_MENTION = "&#8203;"
"""A space without width."""

_ADDRESS = re.compile(r"www\.|://|mailto:|xmpp:|(?<!\w)@|@\S*\.", re.IGNORECASE)


def as_markdown(data: RunData) -> bytes:
    """The run, its agents and tiers; single trials are left out (CSV and Parquet have them)."""
    run = data.run
    lines = [f"## {name(run['display_name'] or run['run_id'])}", ""]
    labels = (f"{key}={value}" for key, value in run["labels"].items())
    facts = [run["run_id"], *about(run, data.state), *labels]
    lines += [
        " · ".join(map(name, facts)),
        "",
        *(f"- {text(line)}" for line in head_lines(run, data.read_at)),
        "",
    ]
    primary = primary_of(run)
    of_agents = [agents_table(data.agents, primary, data.places), formulacode_table(data.agents, primary)]
    tables = [*of_agents, *tiers_tables(data.tiers)]
    tables.append(labels_table(data.by_label))
    for table in (*tables, failures_table(run)):
        lines += _table(table)
    lines.append(f"As of event time {run['last_event_at'] or UNSEEN}, digest `{run['digest']}`.")
    return ("\n".join(lines) + "\n").encode()


def document_as_markdown(document: Document) -> bytes:
    """A document, such as a comparison, in the same way."""
    lines = [f"## {text(document.title)}", "", " · ".join(map(name, document.facts)), ""]
    lines += [f"- {text(line)}" for line in document.lines]
    lines.append("")
    for table in document.tables:
        lines += _table(table)
    lines += [text(document.foot)] if document.foot else []
    return ("\n".join(lines).rstrip("\n") + "\n").encode()


def _table(table: Table) -> list[str]:
    if not table.rows:
        return []
    borders = [":--" if column.left else "--:" for column in table.columns]
    return [
        f"### {table.title}",
        "",
        _line([text(column.title) if column.outside else column.title for column in table.columns]),
        _line(borders),
        *(_line([_cell(*cell) for cell in zip(table.columns, row, strict=True)]) for row in table.rows),
        *(line for note in table.note.splitlines() for line in ("", text(note))),
        "",
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(column: Column, value: str) -> str:
    return name(value) if column.named and value != UNSEEN else text(value)


def name(value: object) -> str:
    """A name from outside.

    >>> name("claude-code:opus"), name("a|b<script>")
    ('<code>claude-code:opus</code>', '<code>a&#124;b&#60;script&#62;</code>')
    """
    return f"<code>{_escaped(visible(value) if isinstance(value, str) else shown(value))}</code>"


def text(value: object) -> str:
    r"""A value as text that means nothing to Markdown and makes no mention.

    >>> text("my_task *x*"), text("www.evil.example"), text(None), text("a\nb")
    ('my_task &#42;x&#42;', 'www&#46;evil&#46;example', '–', 'a&#92;nb')
    >>> text("ask @team"), text("GH-1")
    ('ask &#64;&#8203;team', 'GH-&#8203;1')
    """
    return _MENTION.sub(rf"\g<0>{NO_MENTION}", _escaped(shown(value)))


def _escaped(plain: str) -> str:
    kept = frozenset(" ,%()$") if _ADDRESS.search(plain) else PLAIN
    return "".join(
        f"&#{ord(c)};" if c.isascii() and not c.isalnum() and not _is_plain(plain, at, kept) else c
        for at, c in enumerate(plain)
    )


def _is_plain(plain: str, at: int, kept: frozenset[str]) -> bool:
    """An underscore inside a word is one; at its edge it would be emphasis."""
    if plain[at] == "_":
        return plain[at - 1 : at].isalnum() and plain[at + 1 : at + 2].isalnum()
    return plain[at] in kept
