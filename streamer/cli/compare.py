"""`streamer compare`: two runs or two agents, task by task, with a verdict for CI."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from streamer.cli.errors import FOUND_WRONG, UNVERIFIABLE, explain
from streamer.cli.options import json_option, with_settings
from streamer.cli.price_tables import price_table
from streamer.cli.printing import percent, print_json, print_line, print_table, say, visible
from streamer.cli.source import open_lines, report_rejected
from streamer.records import records_of_lines
from streamer.report.data import RunData, from_events, from_stack
from streamer.report.sides import rows_of
from streamer.schemas.canonical import canonical_json
from streamer.settings import Settings
from streamer.views.boards import COMPARED
from streamer.views.cells import text
from streamer.views.compare import METRICS, compare, worse_by
from streamer.views.comparisons import between
from streamer.views.models import Comparison, Side, SideTotals

SHOWN = 20


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
    "--metric", type=click.Choice(list(METRICS)), default="pass_rate", show_default=True, help="What decides."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="B may be worse by so much, in the metric's unit: 0.02 of a pass rate are 2 points.",
)
@click.option(
    "--significance",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="P",
    help="B counts as worse only if the exact sign test says so, too: p <= P.",
)
@click.option("--limit", type=click.IntRange(min=0), default=SHOWN, show_default=True, help="Tasks to list.")
@json_option
@with_settings
def command(
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
    as_json: bool,
    settings: Settings,
) -> None:
    """Compare run B with run A on the tasks that both have done, each task once.

    Two agents of one run: streamer compare RUN RUN --a-agent A:M --b-agent A:M.

    Exit codes, for CI: 0 B is not worse than A. 1 B is worse by more than --tolerance (and significantly, if
    --significance asks for that). 2 used wrongly. 3 they cannot be compared: no task where both know the
    metric, no such run or agent, or no server that answers.
    """
    if (a_run or b_run) and not files:
        raise click.UsageError("--a-run and --b-run belong to --files: A and B name the runs themselves")
    try:
        first, second = _both(a, b, (a_run, b_run), files, settings)
        names = ((first.run_id, a_agent), (second.run_id, b_agent))
        found = compare(rows_of(first, a_agent), rows_of(second, b_agent), names, 0, limit)
        if first.compared and second.compared:
            words = between(first.compared, second.compared, a_agent, b_agent)
            found = found.model_copy(update={"words": words})
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        say(f"streamer: {explain(error, settings)}")
        raise click.exceptions.Exit(UNVERIFIABLE) from error
    if as_json:
        print_json(canonical_json(found.model_dump(mode="json", by_alias=True)))
    else:
        _print(found)
    raise click.exceptions.Exit(_verdict(found, metric, tolerance, significance))


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
    if not file.is_file():
        raise click.UsageError(f"there is no file {name}; without --files A and B are runs")
    with open_lines(file) as lines:
        records = records_of_lines(lines, name)
        data, rejected = from_events(records, run_id, datetime.now(UTC), price_table(settings.prices_file))
    for one in rejected:
        report_rejected(one)
    return data


def _verdict(found: Comparison, metric: str, tolerance: float, significance: float | None) -> int:
    """Say which side is worse, on stderr; the exit code."""
    difference = found.differences[metric]
    worse = worse_by(difference)
    if worse is None:
        say(f"cannot be compared: there is no task where both sides know {metric}")
        return UNVERIFIABLE
    told = f"{metric} of B minus that of A: {_written(metric, difference.mean)}, p = {difference.p_value:.3g}"
    if worse <= tolerance:
        say(f"B is not worse than A: {told}")
        return 0
    if significance is not None and difference.p_value > significance:
        say(f"B is worse than A, but not significantly: {told}")
        return 0
    say(f"B is worse than A: {told}")
    return FOUND_WRONG


def _print(found: Comparison) -> None:
    print_line(f"A  {_side(found.a)}")
    print_line(f"B  {_side(found.b)}")
    print_line(
        f"{found.tasks:,} tasks in common: passed by both {found.both_passed:,}, by A alone "
        f"{found.only_a:,}, by B alone {found.only_b:,}, by neither {found.neither:,}; "
        f"only in A {found.a.only_here:,}, only in B {found.b.only_here:,}"
    )
    for words in found.words:
        print_line(visible(words))
    print_line()
    columns = ("mean over tasks", "A", "B", "B - A", "tasks", "A better", "B better", "equal", "p")
    print_table("Metrics", columns, _metrics(found))
    differing = [pair for pair in found.pairs if pair.a.pass_rate != pair.b.pass_rate]
    rows = ([pair.task_id, pair.tier, *_passes(pair.a), *_passes(pair.b)] for pair in differing)
    title = "Tasks with different pass rates, the most different first"
    print_table(title, ("task", "tier", "A", "trials", "B", "trials"), rows, left=range(2))
    left = found.a_better + found.b_better - len(differing)
    if left:
        print_line(f"and {left:,} more (--limit)")
    for told, tasks, count in (
        ("passed by A alone", found.only_a_tasks, found.only_a),
        ("passed by B alone", found.only_b_tasks, found.only_b),
        ("only in A", found.not_in_b, found.a.only_here),
        ("only in B", found.not_in_a, found.b.only_here),
    ):
        if tasks:
            more = f" and {count - len(tasks):,} more (--limit)" if count > len(tasks) else ""
            print_line(f"{told}: {', '.join(map(visible, tasks))}{more}")


def _passes(side: Side) -> tuple[str, int]:
    return percent(side.pass_rate), side.trials


def _metrics(found: Comparison) -> Iterable[list[object]]:
    for column in COMPARED.columns:
        difference = found.differences[column.name]
        if difference.tasks:
            counts = (difference.tasks, difference.a_better, difference.b_better, difference.equal)
            sides = (text(column, found.a), text(column, found.b), _written(column.name, difference.mean))
            yield [column.name, *sides, *counts, f"{difference.p_value:.3g}"]


def _written(metric: str, value: float | None) -> str:
    [column] = [column for column in COMPARED.columns if column.name == metric]
    return text(column, {metric: value})


def _side(side: SideTotals) -> str:
    whose = "all but baselines" if side.agent_model is None else side.agent_model
    return f"{side.run}: {whose}, {side.trials:,} trials of the common tasks"
