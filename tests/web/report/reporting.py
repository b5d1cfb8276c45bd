"""Runs to report on, and the names that nobody should trust."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from typing import Any

from streamer.views.tables import COLUMNS, TrialColumn, Value, columns_of
from streamer.web.report import RunData, from_events
from tests.support.events import Event, a_plan, a_trial, records
from tests.support.simulated import TIERED_RUN, simulate

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 1, tzinfo=UTC)
RUN = "<b>bold</b>|\u202erun"
HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2",
    "@SUM(A1)",
    "'quoted",
    "＝1",
    "\u202eevil\u202c",
    "a|b\\|c`d`*e*_f_ ~g~",
    "[x](javascript:alert(1))",
    "www.evil.example",
    "https://evil.example/?a=b",
    "@somebody #1",
    'comma, "quote"; semicolon',
    "$policy ${title} $$",
    "&amp;&#60;b&#62;",
    "long-" + "x" * 123,
]
HOSTILE_HEADS = [HOSTILE[0], HOSTILE[1], *HOSTILE[8:12]]
"""Labels of named metrics, as many as have columns."""

MEASURED: dict[str, Any] = {
    "tests": {"status": "ok", "passed": 3, "failed": 0, "error": 0, "skipped": 0, "total": 3},
    "benchmarks": {
        name: {"agent/nop": agent, "oracle/nop": oracle}
        for name, agent, oracle in (("m.f", 3.0, 2.0), ("m.g", 0.5, 1.5))
    },
}

NAMED_METRICS = {"latency/p50": 1.5, "reward": 1, "__proto__": 0.1}
"""Of one trial; another has the first alone."""

CELLS = ("td", "th", "h1", "h2", "dd", "p")


def folded(events: list[Any], run_id: str | None = None) -> RunData:
    """The run that these events (dicts, or lines) add up to."""
    data, _ = from_events(records(events), run_id, NOW)
    return data


@cache
def tiered() -> RunData:
    """A judged run of three agents in seven tiers."""
    return folded(simulate(seed=5, start=START), TIERED_RUN)


def mixed_events() -> list[Event]:
    """Passed, failed, without a verdict, measured, unmeasured; costs known and not."""
    at = {"finished_at": "2026-01-02T03:04:05.250000Z"}
    return [
        a_plan(
            tasks=6, display_name="Mixed", metrics={"latency/p50": {"unit": "seconds", "direction": "lower"}}
        ),
        a_trial(task_id="a", cost_usd=0.1, duration_seconds=12.5, metrics=NAMED_METRICS, **MEASURED, **at),
        a_trial(task_id="b", resolved=False, cost_usd=0.2, failure_mode="agent_timeout", input_tokens=2**50),
        a_trial(task_id="c", resolved=None, metrics={"latency/p50": -2.0}),
        a_trial(task_id="d", shard="one", subtest="s", tier="T1", score=0.75, revision=2**63 - 1),
        a_trial(task_id="e", tests={"status": "failed", "failed": 1, "error": 0}, **at),
        a_trial(task_id="a", agent="nop", model="nop", **at),
    ]


def hostile_events() -> list[Event]:
    """Every hostile text in every place that takes one."""
    labels = {HOSTILE[1]: HOSTILE[0]}
    metrics = {f"m{at}": {"label": label} for at, label in enumerate(HOSTILE_HEADS)}
    plan = a_plan(run_id=RUN, display_name=HOSTILE[0], labels=labels, harness=HOSTILE[1], metrics=metrics)
    fields = ("shard", "task_id", "agent", "model", "tier", "subtest", "failure_mode")
    own = {"run_id": RUN, "resolved": False, "metrics": dict.fromkeys(metrics, 0.5)}
    own["finished_at"] = "2026-01-02T03:04:05Z"
    return [plan, *(a_trial(**dict.fromkeys(fields, name), **own) for name in HOSTILE)]


DATA: dict[str, Callable[[], RunData]] = {
    "mixed": lambda: folded(mixed_events()),
    "tiered": tiered,
    "hostile": lambda: folded(hostile_events()),
}
"""Runs of which every format must say the same."""


def from_csv(content: bytes, columns: Sequence[TrialColumn] = COLUMNS) -> list[list[Value]]:
    """The rows of a CSV as docs/report.md says they are to be read."""
    text = content.decode()
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == [column.name for column in columns]
    quoted = iter(_quoted_cells(text)[len(columns) :])
    return [
        [_value(c.kind, cell, next(quoted)) for c, cell in zip(columns, line, strict=True)] for line in lines
    ]


def columns_in(data: RunData) -> tuple[TrialColumn, ...]:
    """The columns of a run's trials, those of its named metrics behind the others."""
    return columns_of(data.trials or (), data.run["metrics"])


def _value(kind: str, cell: str, quoted: bool) -> Value:
    if quoted:
        return cell.removeprefix("'")
    if cell == "":
        return None
    if kind == "boolean":
        return {"true": True, "false": False}[cell]
    return int(cell) if kind == "integer" else float(cell)


def _quoted_cells(text: str) -> list[bool]:
    """Whether each cell stands in quotes, which the csv module does not tell."""
    result, at = [], 0
    while at < len(text):
        result.append(text[at] == '"')
        if result[-1]:
            at += 1
            while text[at] != '"' or text[at + 1 : at + 2] == '"':
                at += 2 if text[at] == '"' else 1
            at += 1
        while text[at] not in ",\r":
            at += 1
        at += 1 if text[at] == "," else 2
    return result


class Elements(HTMLParser):
    """The elements, attributes and texts of a page, as a browser without scripts sees them."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.data = self.text = ""
        self._inside = ""
        self._in_cell = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._inside = "data" if ("id", "data") in attrs else tag
        if tag in CELLS:
            self.cells.append("")
            self._in_cell = True

    def handle_data(self, text: str) -> None:
        if self._inside == "data":
            self.data += text
            return
        self.text += text
        if self._in_cell:
            self.cells[-1] += text

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in CELLS


def _read(column: TrialColumn, value: Value) -> Value | datetime:
    return datetime.fromisoformat(value) if column.kind == "time" and isinstance(value, str) else value
