"""Tables of text for people, and documents of tables: terminal, Markdown and HTML write the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from streamer.client.lifecycle import State, plan_words, state_and_status, state_of
from streamer.schemas.metrics import BOARD_METRICS, PRIMARY_METRIC
from streamer.text import counted, dollars, shown, visible
from streamer.views import cells
from streamer.views.boards import (
    AGENTS,
    FAILURES,
    FORMULACODE,
    LABELLED,
    RUNS,
    TIERS,
    TRIALS,
    WITHIN_TIERS,
    leaders_of,
)
from streamer.views.columns import Board, Column
from streamer.views.formatting import EVENT_TIME, event_time_note
from streamer.views.models import TrialRow
from streamer.views.named_columns import with_named, with_values
from streamer.views.uncertainty import PLACES, footnotes
from streamer.views.wording import MIXED, accuracy, accuracy_name, best_first, pass_at_k

Summary = Mapping[str, Any]


NOTED_RUNS = 3
"""So many runs are named in a note below the runs."""


class Table(NamedTuple):
    """One table.

    Attributes:
        title: stands above it.
        columns: their titles and alignments.
        rows: texts, safe to print on a terminal. Names of agents stand in them: escape them for HTML.
        note: lines below it, made safe when they are shown; "": none.
    """

    title: str
    columns: Sequence[Column]
    rows: list[list[str]]
    note: str = ""

    @property
    def heads(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]


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


def table_of(board: Board, rows: Sequence[Any], title: str = "") -> Table:
    """The rows of a board in the given order; columns without any value are left out."""
    columns = cells.known(board.shown_on("text"), rows)
    texts = [[cells.text(column, row) for column in columns] for row in rows]
    return Table(title or board.title, columns, texts)


def runs_table(runs: Iterable[Summary], now: datetime) -> Table:
    """Several runs, one line each, in the given order; their states are determined at `now`."""
    rows = [{**run, "state": state_of(run, now)} for run in runs]
    ahead = [row["run_id"] for row in rows if event_time_note(row["last_event_at"], now)]
    more = f" and {len(ahead) - NOTED_RUNS:,} more" if len(ahead) > NOTED_RUNS else ""
    note = f"{EVENT_TIME} ({', '.join(ahead[:NOTED_RUNS])}{more})" if ahead else ""
    return table_of(RUNS, rows)._replace(note=note)


def agents_table(
    agents: Iterable[Summary], primary: str = PRIMARY_METRIC, places: Mapping[str, str] | None = None
) -> Table:
    """The agents of a run, the best by its primary METRIC first, baselines last.

    Args:
        places: agent:model to the places that it may truly have; None: not known.
    """
    rows = [{**agent, "place": (places or {}).get(agent["agent_model"])} for agent in agents]
    table = _groups_table(AGENTS, sorted(rows, key=best_first(primary)), "Agents")
    return table._replace(note="\n".join(filter(None, (table.note, PLACES)))) if places else table


def formulacode_table(agents: Iterable[Summary], primary: str = PRIMARY_METRIC) -> Table:
    """FormulaCode's means, one agent a row, in the same order; no rows where no agent has them."""
    measured = [agent for agent in agents if agent["formulacode"]]
    return table_of(FORMULACODE, sorted(measured, key=best_first(primary)))


def tiers_tables(tiers: Iterable[Summary]) -> list[Table]:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    held = list(tiers)
    pooled = [tier for tier in held if tier["agent_model"] is None]
    single = [tier for tier in held if tier["agent_model"] is not None]
    tables = [_groups_table(TIERS, pooled, "Tiers")]
    if len({tier["agent_model"] for tier in single}) > 1:
        tables.append(_groups_table(WITHIN_TIERS, single, "Agents within tiers"))
    return tables


def subtests_table(subtests: Iterable[Summary]) -> Table:
    """Tiers broken down by subtest."""
    rows = [{**subtest, "agent_model": subtest["agent_model"] or "all"} for subtest in subtests]
    return _groups_table(WITHIN_TIERS, rows, "Subtests")


def labels_table(groups: Sequence[Summary]) -> Table:
    """A run broken down by a label of its trials; no rows where nothing is."""
    rows = [{**group, "agent_model": group["agent_model"] or "all", "baseline": False} for group in groups]
    return _groups_table(LABELLED, rows, f"By {visible(groups[0]['label'])}" if groups else "By label")


def _groups_table(board: Board, groups: Sequence[Summary], title: str) -> Table:
    mixed = any(group["pass_at_k"] is None for group in groups)
    notes = [MIXED] * mixed + footnotes(groups)
    return table_of(with_named(board, groups), groups, title)._replace(note="\n".join(notes))


def trials_table(trials: Iterable[Summary], planned: Mapping[str, Any] | None = None) -> Table:
    """Scored trials, one line each.

    Args:
        planned: named metrics of the plan, and how to read them, as a run summary has them; None: not known.
    """
    rows = [{**trial, **dict(TrialRow.of("", trial))} for trial in trials]
    return table_of(with_values(TRIALS, rows, planned), rows)


def leaders_table(metric: str, places: Sequence[object]) -> Table:
    """The leaderboard of a METRIC, in the given order."""
    of = BOARD_METRICS.get(metric)
    if of is None:
        return table_of(leaders_of(metric), places, f"{shown(metric)}: best first")
    unit = "" if of.unit == "1" else f", {of.unit}"
    order = "highest" if of.higher_is_better else "lowest"
    return table_of(leaders_of(metric), places, f"{metric}{unit}: {order} first")


def failures_table(run: Summary) -> Table:
    """How the trials ended, by failure mode, the most frequent first."""
    trials = run["trials"]
    modes = sorted(run["failure_modes"].items(), key=lambda item: (-item[1], item[0]))
    rows = [{"mode": mode, "count": count, "share": count / trials} for mode, count in modes if trials]
    return table_of(FAILURES, rows)


def about(run: Summary, state: State) -> list[str]:
    """Harness, benchmark, version and state of a run; what is not known is left out."""
    known = (run["harness"], run["benchmark"], run["benchmark_version"])
    return [*(str(value) for value in known if value), state_and_status(state, run["status"])]


def head_lines(run: Summary, now: datetime | None) -> list[str]:
    """The run in a few sentences: what came out, how far it is, what lies across its tiers, whose time."""
    lines = [
        f"{run['resolved']:,} of {counted(run['trials'], 'trial')} resolved: "
        f"{accuracy_name(run)} {accuracy(run)}, "
        f"{run['no_verdict']} without a verdict, {counted(run['tasks'], 'task')}, "
        f"{_pass_at_k_of_run(run)}, cost {dollars(run['total_cost'])}",
        f"{progress(run)}; {run['superseded']} superseded, {counted(run['conflicts'], 'conflict')}; "
        f"grades by profile {run['grading_profile']}",
    ]
    if cross := run["cross_tier"]:
        lines.append(
            f"across tiers: frontier cost of pass {dollars(cross['frontier_cost_of_pass'])}"
            f" ({shown(cross['frontier_tier'])}), cost delta {dollars(cross['cost_delta'])}, variance of "
            f"pass rate {shown(cross['pass_rate_variance'])}, impl rate {shown(cross['impl_rate_variance'])}"
        )
    if now and (note := event_time_note(run["last_event_at"], now)):
        lines.append(note)
    return lines


def progress(run: Summary) -> str:
    """How far a run is: `12 of 80 planned trials in, 8 in flight, provisional`; without a number, why."""
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    trials = counted(done, "trial") if planned is None else f"{done:,} of {counted(planned, 'planned trial')}"
    text = f"{trials} in"
    text += f", {words}" if (words := plan_words(run)) else ""
    text += f", {run['in_flight']:,} in flight" if run["in_flight"] else ""
    return f"{text}, provisional" if run["provisional"] else text


def _pass_at_k_of_run(run: Summary) -> str:
    if run["pass_at_k"] is None:
        return "pass@k by agent only"
    return f"pass@k {pass_at_k(run)}"
