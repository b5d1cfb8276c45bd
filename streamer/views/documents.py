"""A document for people: a title, facts, sentences and tables. Terminal, Markdown and HTML write the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamer.views.tables import Table


class Document(NamedTuple):
    """One document; names of runs and agents stand in it as they are: escape them for where they go.

    Attributes:
        title: stands above everything.
        facts: what it is about, a few words each.
        lines: sentences below it.
        tables: in their order; tables without rows are left out.
        foot: stands at the end; "": nothing.
    """

    title: str
    facts: Sequence[str]
    lines: Sequence[str]
    tables: Sequence[Table]
    foot: str = ""
