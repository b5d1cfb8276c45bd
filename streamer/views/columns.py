"""Columns of a board, and a board as a title with columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from streamer.schemas.base import value_at
from streamer.schemas.events import (
    ADVANTAGES,
    BOARD_METRICS,
    NAMED,
    PRIMARY_METRIC,
    BoardMetric,
    board_metric,
    named_metric,
)
from streamer.text import UNSEEN, counted, percent, shown

Surface = Literal["page", "terminal", "text"]
"""The page, the screens of `streamer watch`, and tables of commands and reports."""

LIVE: tuple[Surface, ...] = ("page", "terminal")
EVERYWHERE: tuple[Surface, ...] = ("page", "terminal", "text")

NAMES = frozenset(("agent", "failure", "id", "list", "name", "run", "task", "tier"))

THIS_RUN, ALIKE = "this run, final", "tasks like these"
"""Questions that columns answer: how this run ends, and how good an agent is (inference)."""

WORDS = NAMES | {"basis", "grade", "letter", "outcome", "state", "verdict"}
"""Formats aligned to the left; all others are numbers, aligned to the right."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a board.

    Attributes:
        title: text above it, which the page capitalises.
        format: one of the formats in `streamer/views/cells.py`.
        path: fields from the row to the value, which is also the sort key.
        beside: path of a second value in the cell; () without one.
        sort: the first direction of sorting; None: not sortable.
        rank: columns of a lower rank stay longer as the terminal narrows; 0 is the first column.
        least: fewest characters to which the terminal cuts the text; 0: it is never cut.
        empty: a text without information; a column with nothing else is left out.
        outside: the title comes from a plan or a harness.
        about: the question at the head of the column; "" without one.
    """

    name: str
    title: str
    format: str
    path: tuple[str, ...]
    beside: tuple[str, ...] = ()
    sort: Literal["greatest", "least"] | None = None
    rank: int = 14
    least: int = 0
    empty: str = UNSEEN
    hint: str = ""
    on: tuple[Surface, ...] = EVERYWHERE
    outside: bool = False
    about: str = ""

    @property
    def left(self) -> bool:
        return self.format in WORDS

    @property
    def named(self) -> bool:
        return self.format in NAMES


Write = Callable[[Column, float | None], str]


@dataclass(frozen=True, slots=True)
class Board:
    """One board, with its columns in order. Columns without any value are left out, except the first."""

    title: str
    columns: tuple[Column, ...]

    def shown_on(self, surface: Surface) -> list[Column]:
        return [column for column in self.columns if surface in column.on]


R = TypeVar("R")


def sorted_rows(rows: Iterable[R], value: Callable[[R], Any], *, descending: bool) -> list[R]:
    """The rows sorted by a value, rows without one last; equal rows keep their order."""
    every = [(value(row), row) for row in rows]
    filled = sorted((pair for pair in every if pair[0] is not None), key=itemgetter(0), reverse=descending)
    return [row for _, row in filled] + [row for of, row in every if of is None]


def unsorted(columns: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, sort=None) for column in columns)


# -----------------------------------------------------------------------------
# Grades, accuracies and pass@k as text, the same on every surface.
#
# Each function takes a summary, as its model or as the dict of its JSON.


Json = Mapping[str, Any]
Summary = BaseModel | Json

BASES = {"composite_median": "composite", "mean_pass_rate": "pass rate"}

GRADES = "SABCDF"
MARKS = {"*": "planned trials are missing", "?": "trials have no judge's score", "!": "decided"}

GRADE_MARKS = "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
OUTCOMES = {"passed": "passed", "failed": "failed", "fell_back": "fell back", "no_verdict": "no verdict"}

MIXED = "No pass@k for mixed trials: each agent has its own, in tiered runs per tier (R11)"
"""The reason why pass@k is null although a group has trials."""


def grade(group: Summary) -> str:
    """The grade in words, with a note on missing trials or judge's scores.

    >>> grade({"grade": "B", "provisional": True, "grade_provisional": True})
    'B (prov., judge awaited)'
    >>> few = {"grade_basis": "composite_median", "trials": 10, "coverage": {"impl_rate": 1}}
    >>> grade({"grade": "F", "provisional": False, "grade_provisional": False, **few})
    'F (1 of 10 judged)'
    >>> grade({"grade": None, "provisional": True, "grade_provisional": False})
    '–'
    """
    pending = [
        word
        for field, word in (("provisional", "prov."), ("grade_provisional", "judge awaited"))
        if of(group, field)
    ]
    letter = of(group, "grade")
    if letter is None or value_at(group, ("graded",)) is False:
        return UNSEEN
    if counts := judged_of(group):
        pending.append("{} of {} judged".format(*counts))
    return f"{letter} ({', '.join(pending)})" if pending else str(letter)


def judged_of(group: Summary) -> tuple[int, int] | None:
    """The judged trials and all trials of a judged group; None if all are judged, or it has no judge."""
    scored, trials = value_at(group, ("coverage", "impl_rate")), value_at(group, ("trials",))
    if value_at(group, ("grade_basis",)) != "composite_median" or scored is None or scored >= trials:
        return None
    return scored, trials


def is_open(group: Summary) -> bool:
    """Whether planned trials are missing or trials are in flight.

    >>> is_open({"provisional": False, "in_flight": 2}), is_open({"provisional": False, "in_flight": 0})
    (True, False)
    """
    return bool(value_at(group, ("provisional",)) or value_at(group, ("in_flight",)))


def marked_grade(group: Summary) -> str:
    """The grade in short form, with :data:`GRADE_MARKS`.

    >>> marked_grade({"grade": "B", "provisional": True, "grade_provisional": True})
    'B*?'
    >>> settled = {"decided": {"grade": True}}
    >>> marked_grade({"grade": "F", "provisional": True, "grade_provisional": False, "uncertainty": settled})
    'F*!'
    """
    letter = of(group, "grade")
    unscored = bool(of(group, "grade_provisional") or judged_of(group))
    marks = "*" * of(group, "provisional") + "?" * unscored
    marks += "!" * bool(is_open(group) and value_at(group, ("uncertainty", "decided", "grade")))
    return UNSEEN if letter is None or value_at(group, ("graded",)) is False else f"{letter}{marks}"


def basis(group: Summary) -> str:
    """The number behind the grade: `pass rate`, `composite`, or a dash without one."""
    return UNSEEN if value_at(group, ("graded",)) is False else BASES.get(of(group, "grade_basis"), UNSEEN)


def shows_grades(run: Summary | None, groups: Iterable[Summary]) -> bool:
    """Whether a run's boards show grades by default: it has tiers or a judge, or is unknown.

    Otherwise a grade only repeats the pass rate as a letter. A row with `graded` false hides its grade.

    >>> shows_grades({"tiers": 0}, [{"grade_basis": "mean_pass_rate"}]), shows_grades({"tiers": 2}, [])
    (False, True)
    """
    judged = any(value_at(group, ("grade_basis",)) == "composite_median" for group in groups)
    return run is None or judged or value_at(run, ("tiers",)) > 0


def grade_with_basis(group: Summary) -> str:
    """The grade in words, and the number behind it.

    >>> waiting = {"provisional": True, "grade_provisional": False}
    >>> grade_with_basis({"grade": "D", "grade_basis": "mean_pass_rate", "grade_score": 0.65, **waiting})
    'D (prov.) by pass rate 65.0 %'
    >>> grade_with_basis({"grade": "C", "grade_basis": "composite_median", "grade_score": 0.8, **waiting})
    'C (prov.) by composite 0.8'
    >>> grade_with_basis({"grade": None, "grade_basis": None, "grade_score": None, **waiting})
    '–'
    """
    score = of(group, "grade_score")
    if of(group, "grade") is None or score is None:
        return grade(group)
    number = percent(score) if of(group, "grade_basis") == "mean_pass_rate" else shown(score)
    return f"{grade(group)} by {basis(group)} {number}"


def accuracy(summary: Summary) -> str:
    """The accuracy, and the accuracy without infrastructure failures if there were some.

    >>> some = {"accuracy": 0.4124, "accuracy_excluding_infrastructure": 0.43, "infrastructure_failures": 3}
    >>> accuracy(some), accuracy(some | {"infrastructure_failures": 0})
    ('41.2 % (43.0 % without 3 infrastructure failures)', '41.2 %')
    """
    count = of(summary, "infrastructure_failures")
    if not count:
        return percent(of(summary, "accuracy"))
    without = percent(of(summary, "accuracy_excluding_infrastructure"))
    failures = counted(count, "infrastructure failure")
    return f"{percent(of(summary, 'accuracy'))} ({without} without {failures})"


def accuracy_name(run: Summary) -> str:
    return "all agents" if of(run, "agent_models") > 1 else "accuracy"


def pass_owner(run: Summary) -> str:
    """The place of pass@k if the run mixes agents or tiers, and so has no pass@k itself (R11).

    >>> [pass_owner({"agent_models": agents, "tiers": tiers}) for agents, tiers in ((2, 0), (1, 3), (2, 3))]
    ['by agent only', 'within tiers', 'within tiers']
    """
    return "by agent only" if of(run, "tiers") == 0 else "within tiers"


def pass_at_ends(summary: Summary) -> str:
    """A short pass@k: k = 1 and the largest k.

    >>> some = {str(k): {"value": k / 4, "partial": False} for k in (1, 2, 4)}
    >>> pass_at_ends({"pass_at_k": some})
    '1: 25.0 %, 4: 100.0 %'
    """
    estimates = of(summary, "pass_at_k") or {}
    counts = sorted(int(k) for k, estimate in estimates.items() if of(estimate, "value") is not None)
    return pass_at_k({"pass_at_k": {str(k): estimates[str(k)] for k in (*counts[:1], *counts[-1:])}})


def pass_at_k(summary: Summary) -> str:
    """pass@k on one line; `*` marks a k that some tasks do not support yet (R11).

    >>> some = {"1": {"value": 0.5, "partial": False}, "2": {"value": 0.75, "partial": True}}
    >>> pass_at_k({"pass_at_k": some}), pass_at_k({"pass_at_k": None})
    ('1: 50.0 %, 2: 75.0 %*', '–')
    """
    estimates = of(summary, "pass_at_k") or {}
    filled = {int(k): estimate for k, estimate in estimates.items() if of(estimate, "value") is not None}
    parts = (f"{k}: {percent(of(f, 'value'))}{'*' * of(f, 'partial')}" for k, f in sorted(filled.items()))
    return ", ".join(parts) or UNSEEN


def best_first(primary: str = PRIMARY_METRIC) -> Callable[[Json], tuple[bool, bool, float, str]]:
    """Sort key of agents: best first, then unknown values, then baselines; equal ones by label.

    >>> agents = [{"agent_model": "a", "baseline": False, "accuracy": 0.1}]
    >>> agents.append({"agent_model": "b", "baseline": False, "accuracy": 0.2})
    >>> [agent["agent_model"] for agent in sorted(agents, key=best_first("accuracy"))]
    ['b', 'a']
    """

    def key(group: Json) -> tuple[bool, bool, float, str]:
        metric = board_metric(primary, [group])
        value = metric.value(group) if metric else None
        sign = -1.0 if metric and metric.higher_is_better else 1.0
        return (group["baseline"], value is None, sign * (value or 0.0), group["agent_model"])

    return key


def leading(run: Any) -> tuple[Column, str]:
    """The column for the best agent's value in a list of runs, and the metric's name ("": pass rate)."""
    primary = value_at(run, ("primary_metric",))
    says = value_at(run, ("metrics", primary.removeprefix(NAMED)))
    column = metric(primary) if primary in BOARD_METRICS else named(primary, says)
    title = "" if primary == PRIMARY_METRIC else column.title
    return replace(column, path=("leader", "value")), title


def primary_of(run: Json | None) -> str:
    return (run or {}).get("primary_metric") or PRIMARY_METRIC


def of(summary: Summary, name: str) -> Any:
    return summary[name] if isinstance(summary, Mapping) else getattr(summary, name)


# -----------------------------------------------------------------------------
# Columns of metrics that harnesses name themselves (R30).


MOST_NAMED_COLUMNS = 6

_FORMATS = {"USD": "dollars", "seconds": "span"}
_FORMAT = "number"

_BEHIND = ("pass_rate",)
_BEHIND_OF_TRIALS = ("duration_seconds",)


def format_of(unit: str) -> str:
    """The format of numbers of that unit.

    >>> format_of("USD"), format_of("seconds"), format_of("furlongs")
    ('dollars', 'span', 'number')
    """
    return _FORMATS.get(unit, _FORMAT)


def named(metric: str, says: Any) -> Column:
    of = read_as(metric.removeprefix(NAMED), says)
    first: Literal["greatest", "least"] = "greatest" if of.higher_is_better else "least"
    return Column(
        metric,
        shown(of.label),
        format_of(of.unit),
        of.path,
        sort=first,
        rank=2,
        hint=of.description,
        outside=True,
    )


def read_as(name: str, says: Any) -> BoardMetric:
    """A named metric by its plain name; `says` is as in `named`."""
    return named_metric(name, {part: value_at(says, (part,)) for part in ("direction", "unit", "label")})


def named_of(groups: Iterable[Any], *, planned: bool = False) -> list[Column]:
    """Columns of all named metrics of groups, or only of planned ones; the foremost first."""
    says = _said(groups, most=None)
    wanted = [name for name, of in says.items() if not planned or value_at(of, ("planned",))]
    return [named(NAMED + name, says[name]) for name in wanted]


def with_named(board: Board, groups: Iterable[Any]) -> Board:
    """The board with named metrics after the pass rate: planned first, then the most frequent."""
    says = _said(groups)
    return _behind(board, _BEHIND, [named(NAMED + name, of) for name, of in says.items()])


def _said(groups: Iterable[Any], least: int = 0, most: int | None = MOST_NAMED_COLUMNS) -> dict[str, Any]:
    says: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for group in groups:
        for name, statistics in (value_at(group, ("metrics",)) or {}).items():
            says.setdefault(name, statistics)
            counts[name] += value_at(statistics, ("count",))
    planned = {name for name, of in says.items() if value_at(of, ("planned",))}
    known = {name: trials for name, trials in counts.items() if trials >= least}
    return {name: says[name] for name in foremost(known, planned, most)}


def with_values_of(board: Board, groups: Iterable[Any]) -> Board:
    columns = [_of_trial(name, of) for name, of in _said(groups, least=1).items()]
    return _behind(board, _BEHIND_OF_TRIALS, columns)


def _of_trial(name: str, says: Any) -> Column:
    return replace(named(NAMED + name, says), path=("metrics", name), sort=None, hint="")


def with_values(
    board: Board, trials: Iterable[Mapping[str, Any]], planned: Mapping[str, Any] | None = None
) -> Board:
    """The board of trials with their named metrics after the duration, planned ones first."""
    reading = planned or {}
    counts = Counter(name for trial in trials for name in trial.get("metrics") or ())
    names = foremost(counts, reading, MOST_NAMED_COLUMNS)
    return _behind(board, _BEHIND_OF_TRIALS, [_of_trial(name, reading.get(name)) for name in names])


def foremost(counts: Mapping[str, int], planned: Container[str], most: int | None) -> list[str]:
    """The first `most` names: planned ones first, then those with more trials, then by name.

    >>> foremost({"a": 1, "b": 2, "c": 2, "z": 0}, {"z"}, 3)
    ['z', 'b', 'c']
    """
    return sorted(counts, key=lambda name: (name not in planned, -counts[name], name))[:most]


def _behind(board: Board, names: Container[str], columns: Sequence[Column]) -> Board:
    at = 1 + max(n for n, column in enumerate(board.columns) if column.name in names)
    return replace(board, columns=(*board.columns[:at], *columns, *board.columns[at:]))


# -----------------------------------------------------------------------------
# The boards and their columns, for the page, the terminal, the commands and the reports.
#
# A column names a field of its row, and a format. `streamer/views/cells.py` writes the formats as text.
# `streamer/views/drawing.py` draws the same formats for the page and for files.


_METRICS: dict[str, tuple[str, str, int]] = {
    "pass_rate": ("pass rate", "percent", 1),
    "composite_score": ("composite", "score", 8),
    "impl_rate": ("judge", "score", 12),
    "mean_speedup": ("speedup", "times", 2),
    "agent_advantage": ("advantage", "ratio", 3),
    "accuracy": ("accuracy", "percent", 10),
    "total_cost": ("cost", "dollars", 4),
    "mean_cost": ("mean cost", "dollars", 11),
    "cost_of_pass": ("cost/pass", "dollars", 5),
    "mean_duration": ("duration", "span", 13),
}


def metric(name: str, **changes: Any) -> Column:
    of = BOARD_METRICS[name]
    plain = (name.replace("_", " "), format_of(of.unit), 14)
    title, format, rank = _METRICS.get(name, plain)
    first: Literal["greatest", "least"] = "greatest" if of.higher_is_better else "least"
    column = Column(name, title, format, of.path, sort=first, rank=rank, hint=of.description)
    return replace(column, **changes)


AGENT = Column("agent", "agent:model", "agent", ("agent_model",), sort="least", rank=0, least=22)
GRADE = Column("grade", "grade", "grade", ("grade",), sort="least", rank=1, hint=GRADE_MARKS)
BASIS = Column("basis", "rests on", "basis", ("grade_basis",), sort="least", rank=7, hint="What is graded")
TRIALS_IN = Column("trials", "trials", "of", ("trials",), ("runs_planned",), "greatest", rank=6)
INFRASTRUCTURE = Column(
    "infrastructure",
    "w/o infra",
    "infrastructure",
    ("accuracy_excluding_infrastructure",),
    ("infrastructure_failures",),
    rank=10,
    hint="Accuracy without infrastructure failures, and their number",
)
BOTH_PASSES = Column("pass_at_k", "pass@k", "pass_at_ends", ("pass_at_k",), rank=9, on=("text",))
PASS_RATE = metric(
    "pass_rate", format="pass_rate", hint="With bounds on the final pass rate, in percent", about=THIS_RUN
)
PLACE = Column(
    "place",
    "place",
    "place",
    ("place",),
    sort="least",
    rank=3,
    hint="Its possible true ranks, 95 %",
    about=ALIKE,
)
ESTIMATED_COST = Column(
    "estimated_cost",
    "estimated",
    "some_dollars",
    ("estimated_cost",),
    sort="greatest",
    rank=15,
    hint="Cost that is tokens x price, because the harness reported none",
)
IN_FLIGHT = Column("in_flight", "in flight", "some", ("in_flight",), rank=9)
DECIDED = Column("decided", "decided", "decided", ("uncertainty", "decided", "grade"), rank=7, on=("text",))

STATE = Column("state", "state", "state", ("state",), sort="least", rank=1, least=9)

_PROGRESS = (("progress", "done"), ("progress", "planned"))

LEADER = "The best agent's value for the run's primary metric: the pass rate, unless the plan names another"

RUNS = Board(
    "Runs",
    (
        Column("run", "run", "run", ("display_name",), ("run_id",), "least", rank=0, least=16),
        Column("id", "id", "id", ("run_id",), ("display_name",), rank=10, least=16, on=("terminal", "text")),
        Column("benchmark", "benchmark", "name", ("benchmark",), sort="least", rank=7, least=9),
        STATE,
        Column("filled", "progress", "filled", *_PROGRESS, sort="greatest", rank=2, on=("terminal",)),
        Column("trials", "trials", "progress", *_PROGRESS, sort="greatest", rank=3),
        Column("leader", "best", "leader", ("leader",), rank=3, hint=LEADER),
        Column(
            "whose",
            "best agent",
            "name",
            ("leader", "agent_model"),
            rank=8,
            least=16,
            on=("terminal", "text"),
        ),
        metric("accuracy", title="all agents", rank=4, hint="Accuracy of all agents together"),
        INFRASTRUCTURE,
        metric("total_cost", sort="greatest", rank=5),
        Column("agents", "agents", "count", ("agent_models",), sort="greatest", rank=8),
        Column("tiers", "tiers", "some", ("tiers",), sort="greatest", rank=9),
        Column("last", "last event", "age", ("last_event_at",), sort="greatest", rank=6),
    ),
)

AGENTS = Board(
    "Agents",
    (
        AGENT,
        PASS_RATE,
        PLACE,
        GRADE,
        BASIS,
        DECIDED,
        TRIALS_IN,
        IN_FLIGHT,
        metric("composite_score"),
        metric("impl_rate", on=LIVE),
        metric("mean_speedup", on=LIVE),
        metric("agent_advantage", on=LIVE),
        metric("accuracy"),
        INFRASTRUCTURE,
        BOTH_PASSES,
        Column("pass@1", "pass@1", "pass_at_1", ("pass_at_k",), rank=9, on=LIVE),
        Column(
            "pass@most", "pass@k", "pass_at_most", ("pass_at_k",), rank=8, hint="Of the greatest k", on=LIVE
        ),
        metric("total_cost", on=LIVE),
        ESTIMATED_COST,
        metric("mean_cost"),
        metric("cost_of_pass"),
        metric("mean_duration", on=LIVE),
        *(metric(name, on=LIVE) for name in BOARD_METRICS if name not in _METRICS),
    ),
)

LABELLED = replace(
    AGENTS,
    title="By label",
    columns=(
        Column("value", "value", "name", ("value",), rank=0, least=10),
        replace(AGENT, rank=1),
        *AGENTS.columns[1:],
    ),
)


def _gain(name: str, format: str, rank: int, hint: str) -> Column:
    return Column(name, name, format, (f"tier_{name}",), sort="greatest", rank=rank, hint=hint)


TIERS = Board(
    "Tiers",
    (
        Column("tier", "tier", "tier", ("tier",), sort="least", rank=0, least=10),
        replace(AGENT, rank=14),
        GRADE,
        BASIS,
        DECIDED,
        TRIALS_IN,
        IN_FLIGHT,
        PASS_RATE,
        metric("composite_score"),
        _gain("uplift", "gain_percent", 2, "Number behind the grade, over the baseline tier's, minus 1"),
        _gain("delta", "gain", 12, "Number behind the grade, minus the baseline tier's"),
        Column("spread", "spread", "spread", ("statistics",), on=("page",)),
        Column("deviation", "std dev", "spread", ("statistics",), on=("page",)),
        metric("accuracy", on=("terminal", "text")),
        INFRASTRUCTURE,
        BOTH_PASSES,
        metric("total_cost", rank=5, on=("terminal",)),
        metric("mean_cost"),
        metric("cost_of_pass", rank=4),
    ),
)

WITHIN_TIERS = replace(
    TIERS, columns=tuple(replace(c, rank=1) if c.name == AGENT.name else c for c in TIERS.columns)
)
COMPARED = Board(
    "Metrics",
    (
        Column("pass_rate", "pass rate", "percent", ("pass_rate",), sort="greatest"),
        Column("composite_score", "composite", "score", ("composite_score",), sort="greatest", rank=9),
        Column("task_speedup", "speedup", "times", ("task_speedup",), sort="greatest", rank=6),
        Column("agent_advantage", "advantage", "ratio", ("agent_advantage",), sort="greatest", rank=8),
        Column("cost_usd", "cost", "dollars", ("cost_usd",), sort="least", rank=3),
        Column("duration_seconds", "duration", "span", ("duration_seconds",), sort="least", rank=7),
    ),
)
_RATE, _COMPOSITE, _SPEEDUP, _ADVANTAGE, _COST, _DURATION = COMPARED.columns

TRIALS = Board(
    "Trials",
    (
        Column("task", "task", "task", ("task_id",), ("shard",), "least", rank=0, least=16),
        Column("attempt", "try", "count", ("attempt",), rank=4, empty="1"),
        Column("tier", "tier", "tier", ("tier",), ("subtest",), "least", rank=5, least=8),
        replace(AGENT, rank=2, least=18),
        Column("outcome", "outcome", "outcome", ("outcome",), sort="least", rank=1),
        Column("resolved", "resolved", "verdict", ("resolved",), ("verdict_source",), on=("text",)),
        *unsorted([_SPEEDUP, _ADVANTAGE]),
        _COMPOSITE,
        Column("grade", "grade", "letter", ("grade",), rank=10),
        _COST,
        _DURATION,
        Column("failure", "failure mode", "failure", ("failure_mode",), rank=11, least=12),
    ),
)

LEADERS = Board(
    "Leaderboard",
    unsorted(
        (
            AGENT,
            Column("rank", "rank", "count", ("rank",)),
            Column("run", "run", "name", ("run",)),
            Column("value", "value", "number", ("value",)),
            Column("trials", "trials", "count", ("trials",)),
            GRADE,
            BASIS,
            replace(STATE, title="run state"),
        )
    ),
)


def leaders_of(name: str, unit: str = "1") -> Board:
    of = metric(name) if name in BOARD_METRICS else named(name, {"unit": unit})
    value = replace(of, path=("value",), sort=None)
    return replace(LEADERS, columns=tuple(value if c.name == "value" else c for c in LEADERS.columns))


def _formulacode(name: str, title: str, format: str, beside: str = "") -> Column:
    return Column(name, title, format, ("formulacode", name), ("formulacode", beside) if beside else ())


FORMULACODE = Board(
    "FormulaCode",
    (
        AGENT,
        _formulacode("mean_speedup", "mean speedup", "times"),
        _formulacode("mean_success_rate", "success rate", "percent"),
        *(
            _formulacode(name, title, "ratio")
            for name, title in zip(
                ADVANTAGES, ("advantage", *(f"level {n}" for n in (1, 2, 3, 4))), strict=True
            )
        ),
        _formulacode("cost_weighted_advantage", "per USD", "ratio"),
        _formulacode("num_valid_benchmarks", "valid benchmarks", "of", beside="num_benchmarks"),
        _formulacode("fallbacks", "fell back", "count"),
        _formulacode("missing", "missing", "count"),
        _formulacode("claimed", "claimed", "count"),
        Column("measured", "with a speedup", "count", ("formulacode", "coverage", "task_speedup")),
    ),
)


RUNNING = Board(
    "Running trials",
    (
        Column("task", "task", "name", ("task",), rank=0, least=16),
        Column("attempt", "try", "count", ("attempt",), rank=4, empty="1"),
        Column("tier", "tier", "tier", ("tier",), ("subtest",), rank=5, least=8),
        Column("agent", "agent:model", "name", ("agent_model",), rank=2, least=18),
        Column("age", "running for", "span", ("age_seconds",), rank=1),
    ),
)
FAILURES = Board(
    "How the trials ended",
    (
        Column("mode", "failure mode", "name", ("mode",)),
        Column("count", "trials", "count", ("count",)),
        Column("share", "share", "percent", ("share",)),
    ),
)
