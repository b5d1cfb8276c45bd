"""Tables of text for people, and documents of tables: terminal, Markdown and HTML write the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context
from math import ceil, floor
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from streamer.schemas.base import Number
from streamer.schemas.events import (
    ADVANTAGES,
    BOARD_METRICS,
    NAMED,
    PRIMARY_METRIC,
    FormulaCodePayload,
    Measurements,
)
from streamer.schemas.summaries import (
    PLAN_INCOMPLETE,
    PassAtK,
    Rank,
    ScoredTrial,
    State,
    plan_words,
    state_and_status,
    state_of,
)
from streamer.text import UNSEEN, counted, dollars, percent, ratio, shown, visible
from streamer.views.columns import (
    AGENTS,
    FAILURES,
    FORMULACODE,
    GRADES,
    LABELLED,
    MIXED,
    OUTCOMES,
    RUNS,
    TIERS,
    TRIALS,
    WITHIN_TIERS,
    Board,
    Column,
    Summary,
    accuracy,
    accuracy_name,
    basis,
    best_first,
    foremost,
    found,
    grade,
    is_open,
    leaders_of,
    marked_grade,
    pass_at_ends,
    pass_at_k,
    with_named,
    with_values,
)
from streamer.views.models import TrialRow, outcome_of, stated_mode

# -----------------------------------------------------------------------------
# Spans, ages, bars, counts, places and shares of passes as text. Pure.


OLD = timedelta(days=2)
"""An older one is shown by its date."""

AHEAD = timedelta(minutes=1)
"""A time further ahead of this machine's clock is not of this clock: the run is simulated or replayed."""

THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)
"""What a time span is rounded by. Python's own format would make 12.2 of 12.25, the page 12.3."""

EVENT_TIME = "event time, ahead of this clock: the run is simulated or replayed"
"""What stands beside the time of a last event that has not come yet."""


def span(seconds: float | None) -> str:
    """A time span with three digits, halves rounded up as on the page.

    >>> [span(s) for s in (0.0, 8.5, 119.4, 735.0, 20_000.0, 400_000.0, None)]
    ['0 s', '8.5 s', '1.99 min', '12.3 min', '5.56 h', '4.63 d', '–']
    """
    if seconds is None:
        return UNSEEN
    for unit, size, least in (("d", 86_400, 200_000), ("h", 3600, 6000), ("min", 60, 100), ("s", 1, 0)):
        if abs(seconds) >= least:
            rounded = float(THREE_DIGITS.create_decimal_from_float(seconds / size))
            return f"{rounded:.3g} {unit}"
    return UNSEEN


def age(at: datetime | None, now: datetime) -> str:
    """How long ago something was, in one unit; a time ahead of the clock is called event time, UTC.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> [age(noon - timedelta(seconds=s), noon) for s in (0, 59, 61, 7300, 200_000, -600)]
    ['0 s ago', '59 s ago', '1 min ago', '2 h ago', '2026-01-29', 'event time 12:10 UTC']
    >>> age(None, noon)
    '–'
    """
    if at is None:
        return UNSEEN
    passed = now - at
    if passed < -AHEAD:
        return f"event time {at:%H:%M} UTC" if -passed < OLD else f"event time {at:%Y-%m-%d}"
    if passed >= OLD:
        return f"{at:%Y-%m-%d}"
    seconds = max(0, int(passed.total_seconds()))
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def event_time_note(last_event_at: datetime | str | None, now: datetime) -> str | None:
    """Why the time of a last event is not of this clock; None: it may be.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> event_time_note(noon + timedelta(minutes=24), noon)
    'event time, ahead of this clock: the run is simulated or replayed'
    >>> event_time_note("2026-01-31T12:24:00Z", noon) == EVENT_TIME, event_time_note(noon, noon) is None
    (True, True)
    """
    if last_event_at is None:
        return None
    moment = last_event_at if isinstance(last_event_at, datetime) else datetime.fromisoformat(last_event_at)
    return EVENT_TIME if moment - now > AHEAD else None


def minute(at: datetime | str | None) -> str:
    """A time to the minute, UTC.

    >>> minute("2026-01-31T09:08:35.377616Z"), minute(None)
    ('2026-01-31 09:08 UTC', '–')
    """
    if at is None:
        return UNSEEN
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def bar(share: float, width: int) -> str:
    """A bar of this width; full only if the share is.

    >>> bar(0.5, 4), bar(0.999, 4), bar(1.0, 4), bar(0.01, 4), bar(0.0, 4)
    ('██░░', '███░', '████', '█░░░', '░░░░')
    """
    filled = int(share * width) or (1 if share > 0 else 0)
    return "█" * filled + "░" * (width - filled)


def of_planned(done: int, planned: int | None) -> str:
    """A count, and the whole that it is of if that is known.

    >>> of_planned(12, 80), of_planned(1200, None)
    ('12 of 80', '1,200')
    """
    return f"{done:,}" if planned is None else f"{done:,} of {planned:,}"


def place(rank: Rank) -> str:
    """The places that an agent may truly have.

    >>> place(Rank(best=1, worst=3)), place(Rank(best=2, worst=2))
    ('1-3', '2')
    """
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}-{rank.worst}"


def largest_k(pass_at_k: Mapping[str, PassAtK] | None) -> str | None:
    """The largest k above 1 that has a value, as the mapping names it; None: there is none."""
    known = [k for k, found in (pass_at_k or {}).items() if found.value is not None and int(k) > 1]
    return max(known, key=int, default=None)


def share_of_pass(pass_at_k: Mapping[str, PassAtK] | None, k: str | None) -> str:
    """pass@k; `*` while not every planned task supports it (R11)."""
    found = (pass_at_k or {}).get(k) if k else None
    return UNSEEN if found is None or found.value is None else percent(found.value) + "*" * found.partial


def share_of(done: int, planned: int | None) -> float | None:
    """Filled part of the plan, at most 1; None: no plan, or one of nothing.

    >>> share_of(3, 4), share_of(5, 4), share_of(3, None), share_of(0, 0)
    (0.75, 1.0, None, None)
    """
    return min(1.0, done / planned) if planned else None


def finite(value: Number | None) -> float | None:
    """A number of a summary to calculate with; None: unknown, infinite or NaN (R14).

    >>> finite(0.5), finite("Infinity"), finite(None)
    (0.5, None, None)
    """
    return None if value is None or not math.isfinite(float(value)) else float(value)


# -----------------------------------------------------------------------------
# Words for what may be concluded from a run, the same on every surface (docs/inference.md).
#
# Each function takes the summary of a group, as its model or as the dict of its JSON.


SO_FAR = "so far"

REASONS = {
    "no_plan": "the run has not said how many trials it plans",
    "plan_undeclared_tiers": "the plan leaves out tiers or subtests that have results",
    "plan_exceeded": "there are more trials than planned",
    "order_chosen": "the order was chosen",
    "order_unknown_in_part": "some trials have no place in the order",
    "attempts_together": "all attempts at a task run one after the other",
    "order_follows_difficulty": "the order follows the declared difficulty",
    "order_follows_outcome": "passes lie early or late in the order",
    "nothing_yet": "no trial has a final value",
    "empty": "no final pass rate agrees with all results: the assumptions do not hold",
}
"""`final_missing` -> why there is no interval; the table in docs/inference.md says the same."""

EXPLAINED = {
    SO_FAR: "so far: results are still missing. Passes often come first, so this pass rate may mislead.",
    "interval": "[low, high]: the final pass rate lies there, in percent. "
    "At most 5 of 100 runs ever miss it, however often you look.",
    "if": "[low, high]?: the same, if the order has nothing to do with difficulty.",
    "bounds": "(low to high): the final pass rate cannot leave this range, unless results are corrected.",
    "decided": "decided: the grade can no longer change, unless results are corrected.",
}
"""What the marks beside a pass rate and a grade mean."""

PLACES = (
    "place: with 95 % probability no agent truly stands outside of its places, "
    "however often you look, all agents at once."
)
"""What the places beside the agents mean (inference 7)."""

_NEARLY = 1e-9
"""A share such as 0.57 is a little less than 57 %, and is not rounded away from it."""


def pass_rate(group: Summary) -> str:
    """The pass rate with the interval of the final one; while results are missing it is one "so far".

    >>> final = {"low": 0.553, "high": 0.674, "unknown": 40, "order_kind": "shuffled"}
    >>> running = {"statistics": {"pass_rate": {"mean": 0.617}}, "provisional": True, "in_flight": 8}
    >>> pass_rate({**running, "uncertainty": {"final": final}})
    '61.7 % so far [55, 68]'
    >>> pass_rate({**running, "provisional": False, "in_flight": 0, "uncertainty": {"final": final}})
    '61.7 % [55, 68]'
    >>> pass_rate({**running, "uncertainty": None})
    '61.7 % so far'
    """
    rate = found(group, ("statistics", "pass_rate", "mean"))
    if rate is None:
        return UNSEEN
    words = (percent(rate), SO_FAR if is_open(group) else "", interval(group))
    return " ".join(word for word in words if word)


def short_pass_rate(group: Summary) -> str:
    """The same where there is little room: an interval says by itself that results are missing.

    >>> final = {"low": 0.553, "high": 0.674, "unknown": 40, "order_kind": "shuffled"}
    >>> running = {"statistics": {"pass_rate": {"mean": 0.617}}, "provisional": True, "in_flight": 8}
    >>> short_pass_rate({**running, "uncertainty": {"final": final}})
    '61.7 % [55, 68]'
    >>> short_pass_rate({**running, "uncertainty": None})
    '61.7 % so far'
    """
    ends, rate = interval(group), found(group, ("statistics", "pass_rate", "mean"))
    return f"{percent(rate)} {ends}" if ends and rate is not None else pass_rate(group)


def interval(group: Summary) -> str:
    """Where the final pass rate lies, in whole percent, rounded outwards; "" once it is known, or not at all.

    Brackets hold the interval `final`, with `?` if it assumes that the order is fair. Parentheses hold the
    hard bounds, where there is no such interval.

    >>> final = {"low": 0.57, "high": 0.674, "unknown": 40, "order_kind": "unknown"}
    >>> interval({"uncertainty": {"final": final}})
    '[57, 68]?'
    >>> interval({"uncertainty": {"final": final | {"unknown": 0}}})
    ''
    >>> bounds = {"pass_rate": {"low": 0.2247, "high": 0.7191}}
    >>> interval({"uncertainty": {"final": None, "reachable": bounds}})
    '(22 to 72)'
    """
    final = found(group, ("uncertainty", "final"))
    if final is not None:
        low, high = _percents(final)
        mark = "?" * (found(final, ("order_kind",)) != "shuffled")
        return f"[{low}, {high}]{mark}" if found(final, ("unknown",)) else ""
    reach = found(group, ("uncertainty", "reachable", "pass_rate"))
    if reach is None or found(reach, ("low",)) == found(reach, ("high",)):
        return ""
    low, high = _percents(reach)
    return f"({low} to {high})"


def reason(group: Summary) -> str:
    """Why there is no interval of the final pass rate; "" where there is one, or the rate is known.

    >>> reason({"uncertainty": {"final": None, "final_missing": "order_chosen", "reachable": None}})
    'the order was chosen'
    """
    code = found(group, ("uncertainty", "final_missing"))
    reach = found(group, ("uncertainty", "reachable", "pass_rate"))
    if code is None or (reach is not None and found(reach, ("low",)) == found(reach, ("high",))):
        return ""
    return REASONS.get(str(code), str(code))


def decided(group: Summary) -> str:
    """ "yes" if the grade can no longer change though results are missing; else a dash.

    >>> decided({"uncertainty": {"decided": {"grade": True}}, "provisional": True})
    'yes'
    """
    settled = found(group, ("uncertainty", "decided", "grade"))
    return "yes" if settled and is_open(group) else UNSEEN


def footnotes(groups: Sequence[Summary]) -> list[str]:
    """What the marks in these rows mean, a line each, and why intervals are missing."""
    marks = {
        SO_FAR: any(SO_FAR in pass_rate(group) for group in groups),
        "interval": any("[" in pass_rate(group) for group in groups),
        "if": any("]?" in pass_rate(group) for group in groups),
        "bounds": any("(" in pass_rate(group) for group in groups),
        "decided": any(decided(group) != UNSEEN for group in groups),
    }
    return [*(EXPLAINED[mark] for mark, stands in marks.items() if stands), *_missing(groups)]


def _missing(groups: Sequence[Summary]) -> Iterable[str]:
    """Why groups have no interval; names of agents stand in it as they are where the reasons differ."""
    without: dict[str, list[Summary]] = {}
    for group in groups:
        if why := reason(group):
            without.setdefault(why, []).append(group)
    for why, those in without.items():
        names = [str(found(group, ("agent_model",))) for group in those if found(group, ("agent_model",))]
        whose = f" for {', '.join(names)}" if names and len(those) < len(groups) else ""
        yield f"No interval of the final pass rate{whose}: {why}."


def _percents(share: Summary) -> tuple[int, int]:
    low, high = 100 * found(share, ("low",)), 100 * found(share, ("high",))
    return floor(low + _NEARLY), ceil(high - _NEARLY)


# -----------------------------------------------------------------------------
# Cells of the boards as text: a value in the format of its column. Pure.
#
# Rows are summaries, trials or places of a leaderboard, as their models or as the dicts of their JSON.


def sort_value(column: Column, row: Any) -> Any:
    """What rows are sorted by; None: not known."""
    value, second = found(row, column.path), found(row, column.beside) if column.beside else None
    if column.format == "filled":
        return share_of(value, second)
    if column.format == "run":
        value = value or second
    if value is None or value == "NaN":
        return None
    if column.format == "age":
        return value
    if column.format == "grade":
        return GRADES.index(value)
    if column.format == "place":
        return int(value.partition("-")[0])
    return str(value).casefold() if column.left else float(value)


def text(column: Column, row: Any) -> str:
    """A cell of a table of a command or a report; an unknown value is a dash."""
    second = found(row, column.beside) if column.beside else None
    return FORMATS[column.format](found(row, column.path), second, row)


def short(column: Column, row: Any, now: datetime) -> str:
    """A cell of a screen: marks beside a grade instead of words, an age instead of a time."""
    if column.format == "grade":
        return marked_grade(row)
    if column.format == "pass_rate":
        return short_pass_rate(row)
    if column.format == "age":
        return age(found(row, column.path), now)
    return text(column, row)


def known(columns: Sequence[Column], rows: Sequence[Any]) -> list[Column]:
    """The columns that some row has a value for; the first in any case."""
    return [c for at, c in enumerate(columns) if not at or any(text(c, row) != c.empty for row in rows)]


def _agent(label: str | None, _: Any, row: Any) -> str:
    return visible(label) + (" (baseline)" if found(row, ("baseline",)) else "")


def _infrastructure(without: float | None, failures: int | None, _: Any) -> str:
    return f"{percent(without)} ({failures:,})" if failures else UNSEEN


def _pass_at_most(pass_at_k: Any, _: Any, __: Any) -> str:
    most = largest_k(pass_at_k)
    return f"{most}: {share_of_pass(pass_at_k, most)}" if most else UNSEEN


def _progress(done: int, planned: int | None, run: Any) -> str:
    """The trials, of so many if that is known; a plan that is not complete is named."""
    words = plan_words(run)
    return f"{done:,} ({words})" if words == PLAN_INCOMPLETE else of_planned(done, planned)


def _verdict(resolved: bool | None, source: str | None, _: Any) -> str:
    """The verdict; a derived one says so (R27)."""
    return shown(resolved) + " (derived)" * (source == "derived")


def _value(write: Callable[[Any], str]) -> Callable[[Any, Any, Any], str]:
    return lambda value, _, __: write(value)


FORMATS: dict[str, Callable[[Any, Any, Any], str]] = {
    "age": _value(minute),
    "agent": _agent,
    "basis": lambda _, __, row: basis(row),
    "count": _value(shown),
    "decided": lambda _, __, row: decided(row),
    "dollars": _value(dollars),
    "failure": _value(lambda mode: visible(stated_mode(mode))),
    "filled": lambda done, planned, _: percent(share_of(done, planned)),
    "gain": _value(ratio),
    "gain_percent": _value(lambda gain: percent(finite(gain))),
    "grade": lambda letter, _, row: grade(row),
    "id": lambda run_id, name, _: visible(run_id) if name else UNSEEN,
    "infrastructure": _infrastructure,
    "letter": _value(visible),
    "list": _value(visible),
    "name": _value(visible),
    "number": _value(shown),
    "of": lambda count, whole, _: of_planned(count, whole),
    "outcome": _value(lambda word: OUTCOMES[word]),
    "pass_rate": lambda _, __, row: pass_rate(row),
    "pass_at_1": _value(lambda pass_at_k: share_of_pass(pass_at_k, "1")),
    "pass_at_ends": lambda _, __, row: pass_at_ends(row),
    "pass_at_most": _pass_at_most,
    "percent": _value(percent),
    "place": _value(shown),
    "progress": _progress,
    "ratio": _value(ratio),
    "run": lambda name, run_id, _: visible(name or run_id),
    "score": _value(shown),
    "some": _value(lambda count: shown(count or None)),
    "span": _value(span),
    "state": _value(visible),
    "task": lambda task, shard, _: visible(f"{shard}: {task}" if shard else task),
    "tier": lambda tier, subtest, _: visible(f"{tier}/{subtest}" if tier and subtest else tier),
    "times": _value(ratio),
    "verdict": _verdict,
}
"""Format -> how the value, the second value and the row become text."""


# -----------------------------------------------------------------------------
# Tables of text for people, and documents of tables: terminal, Markdown and HTML write the same.


SummaryFields = Mapping[str, Any]


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
    columns = known(board.shown_on("text"), rows)
    texts = [[text(column, row) for column in columns] for row in rows]
    return Table(title or board.title, columns, texts)


def runs_table(runs: Iterable[SummaryFields], now: datetime) -> Table:
    """Several runs, one line each, in the given order; their states are determined at `now`."""
    rows = [{**run, "state": state_of(run, now)} for run in runs]
    ahead = [row["run_id"] for row in rows if event_time_note(row["last_event_at"], now)]
    more = f" and {len(ahead) - NOTED_RUNS:,} more" if len(ahead) > NOTED_RUNS else ""
    note = f"{EVENT_TIME} ({', '.join(ahead[:NOTED_RUNS])}{more})" if ahead else ""
    return table_of(RUNS, rows)._replace(note=note)


def agents_table(
    agents: Iterable[SummaryFields], primary: str = PRIMARY_METRIC, places: Mapping[str, str] | None = None
) -> Table:
    """The agents of a run, the best by its primary METRIC first, baselines last.

    Args:
        places: agent:model to the places that it may truly have; None: not known.
    """
    rows = [{**agent, "place": (places or {}).get(agent["agent_model"])} for agent in agents]
    table = _groups_table(AGENTS, sorted(rows, key=best_first(primary)), "Agents")
    return table._replace(note="\n".join(filter(None, (table.note, PLACES)))) if places else table


def formulacode_table(agents: Iterable[SummaryFields], primary: str = PRIMARY_METRIC) -> Table:
    """FormulaCode's means, one agent a row, in the same order; no rows where no agent has them."""
    measured = [agent for agent in agents if agent["formulacode"]]
    return table_of(FORMULACODE, sorted(measured, key=best_first(primary)))


def tiers_tables(tiers: Iterable[SummaryFields]) -> list[Table]:
    """The tiers of a run, pooled; and per agent:model where there are several."""
    held = list(tiers)
    pooled = [tier for tier in held if tier["agent_model"] is None]
    single = [tier for tier in held if tier["agent_model"] is not None]
    tables = [_groups_table(TIERS, pooled, "Tiers")]
    if len({tier["agent_model"] for tier in single}) > 1:
        tables.append(_groups_table(WITHIN_TIERS, single, "Agents within tiers"))
    return tables


def subtests_table(subtests: Iterable[SummaryFields]) -> Table:
    """Tiers broken down by subtest."""
    rows = [{**subtest, "agent_model": subtest["agent_model"] or "all"} for subtest in subtests]
    return _groups_table(WITHIN_TIERS, rows, "Subtests")


def labels_table(groups: Sequence[SummaryFields]) -> Table:
    """A run broken down by a label of its trials; no rows where nothing is."""
    rows = [{**group, "agent_model": group["agent_model"] or "all", "baseline": False} for group in groups]
    return _groups_table(LABELLED, rows, f"By {visible(groups[0]['label'])}" if groups else "By label")


def _groups_table(board: Board, groups: Sequence[SummaryFields], title: str) -> Table:
    mixed = any(group["pass_at_k"] is None for group in groups)
    notes = [MIXED] * mixed + footnotes(groups)
    return table_of(with_named(board, groups), groups, title)._replace(note="\n".join(notes))


def trials_table(trials: Iterable[SummaryFields], planned: Mapping[str, Any] | None = None) -> Table:
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


def failures_table(run: SummaryFields) -> Table:
    """How the trials ended, by failure mode, the most frequent first."""
    trials = run["trials"]
    modes = sorted(run["failure_modes"].items(), key=lambda item: (-item[1], item[0]))
    rows = [{"mode": mode, "count": count, "share": count / trials} for mode, count in modes if trials]
    return table_of(FAILURES, rows)


def about(run: SummaryFields, state: State) -> list[str]:
    """Harness, benchmark, version and state of a run; what is not known is left out."""
    known = (run["harness"], run["benchmark"], run["benchmark_version"])
    return [*(str(value) for value in known if value), state_and_status(state, run["status"])]


def head_lines(run: SummaryFields, now: datetime | None) -> list[str]:
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


def progress(run: SummaryFields) -> str:
    """How far a run is: `12 of 80 planned trials in, 8 in flight, provisional`; without a number, why."""
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    trials = counted(done, "trial") if planned is None else f"{done:,} of {counted(planned, 'planned trial')}"
    text = f"{trials} in"
    text += f", {words}" if (words := plan_words(run)) else ""
    text += f", {run['in_flight']:,} in flight" if run["in_flight"] else ""
    return f"{text}, provisional" if run["provisional"] else text


def _pass_at_k_of_run(run: SummaryFields) -> str:
    if run["pass_at_k"] is None:
        return "pass@k by agent only"
    return f"pass@k {pass_at_k(run)}"


# -----------------------------------------------------------------------------
# The columns of a table of scored trials: one row per trial, in CSV and in Parquet alike.


NAMED_METRIC_COLUMNS = 64
"""Named metrics that have a column."""

_NAMED_FIELD = "metrics"

Kind = Literal["text", "integer", "number", "boolean", "time"]

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """One column.

    Attributes:
        name: as in the model, so that there is no second name to learn.
        kind: one of text, integer (64 bits), number (double, may be infinite or NaN, R14), boolean, time
            (UTC).
        unit: unit of the number; "": it has none, or the plan names none.
        path: fields to follow from the scored trial; () for what is worked out here.
    """

    name: str
    kind: Kind
    unit: str = ""
    path: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The field's description, from the model."""
        if not self.path:
            return "In one word: passed, failed, fell_back (C1) or no_verdict (R19)."
        if self.path[0] == _NAMED_FIELD:
            return "The value that the harness gave to this metric (R30); null: none."
        model = FormulaCodePayload if len(self.path) == 2 else ScoredTrial
        return str(model.model_fields[self.path[-1]].description)

    def of(self, trial: Mapping[str, Any]) -> Value:
        """The value in a scored trial as parsed from JSON: numbers that are not finite as floats."""
        if not self.path:
            return outcome_of(trial)
        if self.path[0] == _NAMED_FIELD:
            value = (trial.get(_NAMED_FIELD) or {}).get(self.path[1])
            return None if value is None else float(value)
        found: Any = trial
        for step in self.path:
            found = found[step] if found is not None else None
        return float(found) if self.kind == "number" and found is not None else found


def _of_trial(kind: Kind, *names: str, unit: str = "") -> list[TrialColumn]:
    return [TrialColumn(name, kind, unit, (name,)) for name in names]


def _of_formulacode(kind: Kind, *names: str, unit: str = "") -> list[TrialColumn]:
    return [TrialColumn(name, kind, unit, ("formulacode", name)) for name in names]


def _of_measurements() -> list[TrialColumn]:
    """The columns that a harness measures of a trial, in the order of the model."""
    hints = get_type_hints(Measurements)
    columns = []
    for name, field in Measurements.model_fields.items():
        says = field.json_schema_extra
        assert isinstance(says, dict), name
        columns.append(TrialColumn(name, _KINDS[get_args(hints[name])[0]], str(says["unit"]), (name,)))
    return columns


_KINDS: dict[type, Kind] = {int: "integer", float: "number"}

COLUMNS: tuple[TrialColumn, ...] = (
    *_of_trial("text", "run_id", "shard", "task_id"),
    *_of_trial("integer", "attempt"),
    *_of_trial("text", "agent_model", "agent", "model"),
    *_of_trial("integer", "agent_index"),
    *_of_trial("text", "tier", "subtest"),
    TrialColumn("outcome", "text"),
    *_of_trial("boolean", "resolved", "success"),
    *_of_trial("text", "verdict_source", "failure_mode"),
    *_of_trial("boolean", "infrastructure_failure"),
    *_of_trial("number", "pass_rate", "impl_rate", "composite_score", unit="0 to 1"),
    *_of_trial("text", "grade"),
    *_of_trial("number", "cost_usd", unit="USD"),
    *_of_trial("text", "cost_source"),
    *_of_trial("number", "cost_of_pass", unit="USD"),
    *_of_trial("number", "duration_seconds", unit="seconds"),
    *_of_measurements(),
    *_of_formulacode("number", "task_speedup", unit="ratio"),
    *_of_formulacode("number", *ADVANTAGES, unit="difference of ratios"),
    *_of_formulacode("integer", "num_benchmarks", "num_valid_benchmarks", "benchmarks_left_out"),
    *_of_formulacode("boolean", "fallback_to_baseline", "claimed", "pytest_failed", "snapshot_failed"),
    *_of_trial("integer", "revision"),
    *_of_trial("text", "fingerprint"),
    *_of_trial("time", "last_event_at"),
    *_of_trial("integer", "semantics_version", "epoch", "state_version"),
    *_of_trial("text", "digest"),
)
"""In the order in which they stand in the file; named metrics come behind them."""


def columns_of(
    trials: Sequence[Mapping[str, Any]], planned: Mapping[str, Any] | None = None
) -> tuple[TrialColumn, ...]:
    """COLUMNS, and one `metrics/NAME` for each named metric that a trial has, by name (R30).

    Args:
        planned: named metrics of the plan, and how to read them, as a run summary has them. If trials have
            more than :data:`MOST_NAMED` metrics, these are kept first, then what most trials have.
    """
    reading = planned or {}
    counts = Counter(name for trial in trials for name in trial.get(_NAMED_FIELD) or ())
    named = (
        TrialColumn(NAMED + name, "number", reading.get(name, {}).get("unit") or "", (_NAMED_FIELD, name))
        for name in sorted(foremost(counts, reading, NAMED_METRIC_COLUMNS))
    )
    return (*COLUMNS, *named)


def rows(
    trials: Sequence[Mapping[str, Any]], columns: Sequence[TrialColumn] = COLUMNS
) -> Iterator[list[Value]]:
    """One row per trial, in the given order."""
    for trial in trials:
        yield [column.of(trial) for column in columns]
