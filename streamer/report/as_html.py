"""A run as one HTML file that needs nothing else: styles, scripts and data stand in it.

Without JavaScript it is static tables; with it, the page's own board, tiers and charts. The content security
policy allows exactly the scripts and styles in the file, by their hashes, and no connection to anywhere. What
agents wrote is text: escaped in the tables, and JSON with `<` written as `\\u003c` in the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template

from streamer.client.lifecycle import State, plan_words
from streamer.report.bundle import OURS, script
from streamer.report.data import Json, RunData
from streamer.schemas.canonical import canonical_json
from streamer.schemas.summaries import RunSummary
from streamer.text import dollars, percent, shown
from streamer.views.eta import eta_of
from streamer.views.matrix import TooManyCells, whole_matrix
from streamer.views.models import TrialRow
from streamer.views.tables import (
    about,
    agents_table,
    failures_table,
    formulacode_table,
    head_lines,
    labels_table,
    tiers_tables,
    trials_table,
)
from streamer.views.wording import accuracy, accuracy_name, primary_of
from streamer.web.one_file import card, filled, static_file
from streamer.web.one_file import text as escaped

MAX_TRIALS = 1000
"""So many trials are listed; CSV and Parquet have all of them."""

MAX_OPENED = 20_000
"""Up to so many trials can be opened from the cells of the matrix; each takes about 300 bytes of the file."""


def as_html(data: RunData) -> bytes:
    """The run as one self-contained file."""
    run = data.run
    body = Template((OURS / "report.html").read_text(encoding="utf-8")).substitute(
        agents=card(agents_table(data.agents, primary_of(run), data.places)),
        tiers="".join(map(card, tiers_tables(data.tiers) if data.tiers else ())),
        more="".join(_more(data)),
    )
    return filled(
        run["display_name"] or run["run_id"],
        _facts(run, data.state),
        body,
        f"As of event time {run['last_event_at'] or 'unknown'}. Digest {run['digest']}.",
        tiles=f'<dl class="tiles">{"".join(_tiles(run))}</dl>',
        data=_embedded(data),
        scripts=[_plot(), script(OURS / "report.js")],
    )


def _facts(run: Json, state: State) -> list[str]:
    labels = (f"{key}={value}" for key, value in run["labels"].items())
    return [run["run_id"], *about(run, state), *labels]


def _tiles(run: Json) -> Iterable[str]:
    pace = eta_of(RunSummary.model_validate(run))
    rate = "" if pace.usd_per_hour is None else f"{dollars(pace.usd_per_hour)} per hour"
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    counted = shown(done) if planned is None else f"{shown(done)} / {shown(planned)}"
    share = plan_words(run) if pace.share is None else f"{percent(pace.share)} of the plan"
    resolved = f"{shown(run['resolved'])} resolved of {shown(run['trials'])}"
    yield _tile("Progress", counted, share)
    excluded = "" if not run["infrastructure_failures"] else f"; {accuracy(run)}"
    yield _tile(accuracy_name(run).capitalize(), percent(run["accuracy"]), resolved + excluded)
    yield _tile("Cost", dollars(run["total_cost"]), rate)
    yield _tile("Tasks", shown(run["tasks"]), f"{shown(run['no_verdict'])} trials without a verdict")


def _tile(title: str, value: str, more: str) -> str:
    return (
        f'<div class="tile"><dt>{escape(title)}</dt><dd>{escape(value)}</dd>'
        f'<dd class="more">{escape(more)}</dd></div>'
    )


def _more(data: RunData) -> Iterable[str]:
    """The parts without an interactive form: labels, FormulaCode, how trials ended, the trials."""
    of_formulacode = formulacode_table(data.agents, primary_of(data.run))
    for table in (labels_table(data.by_label), of_formulacode, failures_table(data.run)):
        if table.rows:
            yield f"<section>{card(table)}</section>"
    lines = "".join(f"<p>{escaped(line)}</p>" for line in head_lines(data.run, data.read_at))
    yield (
        '<section class="card" aria-label="In words"><header><h2>In words</h2></header>'
        f'<div class="body">{lines}</div></section>'
    )
    if data.trials:
        table = trials_table(data.trials[:MAX_TRIALS], data.run["metrics"])
        left = len(data.trials) - len(table.rows)
        note = f"The first {len(table.rows):,} of {len(data.trials):,}; CSV has all." if left else ""
        yield f"<section>{card(table, note)}</section>"


def _embedded(data: RunData) -> str:
    """The data that the scripts draw, as JSON that cannot end its element."""
    drawn = {"run": data.run, "agents": data.agents, "tiers": data.tiers, "curves": data.curves}
    drawn |= {"places": data.places}
    if data.trials:
        rows = [TrialRow.of("", trial) for trial in data.trials]
        try:
            drawn["matrix"] = whole_matrix(rows).model_dump(mode="json")
        except TooManyCells as error:
            drawn["no_matrix"] = str(error)
        if len(rows) <= MAX_OPENED:
            drawn["trials"] = [row.model_dump(mode="json", exclude_none=True) for row in rows]
    return canonical_json(drawn).decode().replace("<", "\\u003c")


def _plot() -> str:
    """uPlot with its licence, as the licence asks."""
    licence = static_file("vendor/uplot/LICENSE").strip()
    return f"/*\n{licence}\n*/\n{static_file('vendor/uplot/uPlot.iife.min.js')}"
