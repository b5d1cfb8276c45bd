"""`streamer compare`: two runs or two agents, task by task, with a verdict for CI."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.cli.board_lines import print_board
from streamer.cli.errors import FOUND_WRONG, UNVERIFIABLE, explain
from streamer.cli.options import FiniteRange, json_option, wide_option, with_settings
from streamer.cli.out import write
from streamer.cli.price_tables import price_table
from streamer.cli.printing import print_json, print_line, say
from streamer.cli.source import open_records, report_rejected
from streamer.fold import NoSuchRun
from streamer.report.as_markdown import document_as_markdown
from streamer.report.data import RunData, from_events, from_stack
from streamer.report.sides import rows_of
from streamer.schemas.canonical import canonical_json
from streamer.schemas.details import NAMED
from streamer.schemas.metrics import can_have_board
from streamer.schemas.summaries import AgentModelSummary
from streamer.settings import Settings
from streamer.views.compare import COMPARED_METRICS, ComparedSide, compare_sides, worse_by
from streamer.views.comparison_document import column_of, comparison_document, interval_of, moved
from streamer.views.models import Comparison
from streamer.views.ordered_words import with_order
from streamer.views.tables import Document
from streamer.web.one_file import one_file

SHOWN = 20

FORMATS = ("text", "json", "md", "html")


def _compared_metric(_: click.Context, __: click.Parameter, value: str) -> str:
    if value not in COMPARED_METRICS and not (value.startswith(NAMED) and can_have_board(value)):
        raise click.BadParameter(f"{value!r} is none of {', '.join(COMPARED_METRICS)}, and no {NAMED}NAME")
    return value


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--a-agent", metavar="A:M", help="Only this agent:model of A; all but baselines if not given.")
@click.option("--b-agent", metavar="A:M", help="Only this agent:model of B.")
@click.option(
    "--files", is_flag=True, help="A and B are files of events, which are folded; no server is asked."
)
@click.option("--a-run", metavar="RUN", help="With --files: which run of A, if it holds several.")
@click.option("--b-run", metavar="RUN", help="With --files: which run of B.")
@click.option(
    "--metric",
    callback=_compared_metric,
    default="pass_rate",
    show_default=True,
    metavar="METRIC",
    help=f"What decides: {', '.join(COMPARED_METRICS)}, or {NAMED}NAME of a named one.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    help="B may be worse by so much, in the metric's unit: 0.02 of a pass rate are 2 points.",
)
@click.option(
    "--significance",
    type=FiniteRange(0, 1, min_open=True),
    metavar="P",
    help="B counts as worse only if the exact sign test says so, too: p <= P.",
)
@click.option("--limit", type=click.IntRange(min=0), default=SHOWN, show_default=True, help="Tasks to list.")
@click.option("--format", "chosen", type=click.Choice(FORMATS), help="As --out ends, or text, if not given.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; stdout if not given."
)
@json_option
@wide_option
@with_settings
def compare_command(
    a: str,
    b: str,
    a_agent: str | None,
    b_agent: str | None,
    files: bool,
    a_run: str | None,
    b_run: str | None,
    metric: str,
    tolerance: float,
    significance: float | None,
    limit: int,
    chosen: str | None,
    out: Path | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Compare run B with run A on the tasks that both have done, each task once.

    Two agents of one run: streamer compare RUN RUN --a-agent A:M --b-agent A:M.

    Exit codes, for CI: 0 B is not worse than A. 1 B is worse by more than --tolerance (and significantly, if
    --significance asks for that). 2 used wrongly. 3 they cannot be compared: no task where both know the
    metric, or none that --significance could test. 3 also: no such run or agent, no server that answers, or
    a file that cannot be read or written.
    """
    if (a_run or b_run) and not files:
        raise click.UsageError("--a-run and --b-run belong to --files: A and B name the runs themselves")
    form = "json" if as_json else chosen or _format_of(out)
    if out is not None and out.suffix and not (as_json or chosen) and _ending(out) not in FORMATS:
        raise click.UsageError(
            f"{out.suffix} is no format of a comparison: end --out in md, html or json, or give --format"
        )
    if form == "text" and out is not None:
        raise click.UsageError("text is for the terminal: with --out choose md, html or json")
    try:
        first, second = _both(a, b, (a_run, b_run), files, settings)
        found = compare_sides(_side(first, a_agent), _side(second, b_agent), 0, limit)
        found = with_order(found, first.folded, second.folded)
        _write(found, form, out)
    except (click.UsageError, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        text = error.format_message() if isinstance(error, click.ClickException) else explain(error, settings)
        if not files and any(map(_is_file, (a, b))):
            text = f"{text.rstrip('.')}. There is a file of that name: --files reads files of events"
        if isinstance(error, NoSuchRun) and error.known and files:
            text = f"{text.rstrip('.')}. --a-run RUN and --b-run RUN choose"
        say(f"streamer: {text}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error
    raise click.exceptions.Exit(_verdict(found, metric, tolerance, significance))


def _is_file(name: str) -> bool:
    """False also for a run's id that no file can have, because it is too long."""
    with suppress(OSError):
        return Path(name).is_file()
    return False


def _format_of(out: Path | None) -> str:
    if out is None:
        return "text"
    return _ending(out) if _ending(out) in FORMATS else "md"


def _ending(out: Path) -> str:
    return out.suffix.lower().removeprefix(".")


def _side(data: RunData, agent_model: str | None) -> ComparedSide:
    assert data.compared is not None, "a run that was read or folded has its tasks"
    agents = [AgentModelSummary.model_validate(agent) for agent in data.agents]
    return ComparedSide(data.compared, agents, agent_model, rows_of(data, agent_model))


def _both(
    a: str, b: str, runs: tuple[str | None, str | None], files: bool, settings: Settings
) -> tuple[RunData, RunData]:
    """The sources of both sides; a source that both use is read once."""
    if not files:
        now = datetime.now(UTC)
        first = from_stack(settings, a, now)
        return first, first if a == b else from_stack(settings, b, now)
    first = _folded(a, runs[0], settings)
    return first, first if (a, runs[0]) == (b, runs[1]) else _folded(b, runs[1], settings)


def _folded(name: str, run_id: str | None, settings: Settings) -> RunData:
    file = Path(name)
    if not _is_file(name):
        raise click.UsageError(f"there is no file {name}; without --files A and B are runs")
    with open_records(file) as records:
        data, rejected = from_events(records, run_id, datetime.now(UTC), price_table(settings.prices_file))
    for one in rejected:
        report_rejected(one)
    return data


def _verdict(found: Comparison, metric: str, tolerance: float, significance: float | None) -> int:
    """Say which side is worse, on stderr; the exit code."""
    difference = found.differences.get(metric)
    worse = None if difference is None else worse_by(difference)
    if difference is None or worse is None:
        say(f"cannot be compared: there is no task where both sides know {metric}")
        return UNVERIFIABLE
    column = column_of(metric, difference)
    by = f"{moved(column, difference.mean)} {interval_of(column, difference)}".rstrip()
    p = difference.p_value
    tested = "no p: no task that differs has equal attempts" if p is None else f"p = {p:.3g}"
    told = f"{metric} of B minus that of A: {by}, {tested}"
    if worse <= tolerance:
        say(f"B is not worse than A: {told}")
        return 0
    if significance is not None and p is None:
        say(f"cannot be tested: B is worse than A, but whether significantly is not known: {told}")
        return UNVERIFIABLE
    if significance is not None and p is not None and p > significance:
        say(f"B is worse than A, but not significantly: {told}")
        return 0
    say(f"B is worse than A: {told}")
    return FOUND_WRONG


def _write(found: Comparison, form: str, out: Path | None) -> None:
    document = comparison_document(found)
    if form == "text":
        _print_comparison(document)
    elif form == "html":
        write(one_file(document), out)
    elif form == "md":
        write(document_as_markdown(document), out)
    else:
        content = canonical_json(found.model_dump(mode="json", by_alias=True))
        print_json(content) if out is None else write(content + b"\n", out)


def _print_comparison(document: Document) -> None:
    for line in (*document.facts, *document.lines):
        print_line(line)
    print_line()
    print_board(*document.tables)
