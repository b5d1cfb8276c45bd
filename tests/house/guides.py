"""The generated parts of the guides: `python -m tests.house.guides` writes them."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from streamer.schemas.events import INFRASTRUCTURE_FAILURES
from streamer.settings import Settings
from streamer.views.tables import COLUMNS
from tests.house.citations import linked
from tests.house.repository import ROOT

REPORT, OPERATOR, HARNESS = (ROOT / f"docs/{name}.md" for name in ("report", "operator", "harness-author"))
PARTS = {
    REPORT: ("<!-- columns: generated from streamer/views/tables.py -->\n", "<!-- end of columns -->\n"),
    OPERATOR: ("<!-- settings: generated from streamer/settings.py -->\n", "<!-- end of settings -->\n"),
    HARNESS: (
        "<!-- infrastructure: generated from streamer/schemas/events.py -->\n",
        "<!-- end of infrastructure -->\n",
    ),
}


def columns_table() -> str:
    rows = (f"| `{c.name}` | {c.kind} | {c.unit or '–'} | {_cell(c.description)} |\n" for c in COLUMNS)
    return "| column | type | unit | what it is |\n|---|---|---|---|\n" + "".join(rows)


def settings_table() -> str:
    rows = [
        f"| `{name}` | {_default(field.default)} | {_cell(str(field.description))} |\n"
        for name, field in Settings.model_fields.items()
    ]
    return "| setting | default | what it is |\n|---|---|---|\n" + "".join(rows)


def infrastructure_table() -> str:
    rows = [
        f"| {harness} | `{mode}` | {_cell(meaning)} |\n"
        for harness, modes in INFRASTRUCTURE_FAILURES.items()
        for mode, meaning in modes.items()
    ]
    return "| harness | failure mode | what happened |\n|---|---|---|\n" + "".join(rows)


TABLES = {REPORT: columns_table, OPERATOR: settings_table, HARNESS: infrastructure_table}


def with_part(document: Path, text: str) -> str:
    start, end = PARTS[document]
    head, rest = text.split(start)
    return head + start + TABLES[document]() + end + rest.split(end)[1]


def _default(value: object) -> str:
    if value is None or value is PydanticUndefined or isinstance(value, SecretStr):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "(empty)" if value == "" else f"`{value}`"


def _cell(text: str) -> str:
    return linked(text.replace("|", "\\|"))


if __name__ == "__main__":
    for document in PARTS:
        document.write_text(with_part(document, document.read_text("utf-8")), encoding="utf-8")
