"""The boards and their columns: the page, the terminal, the commands and the reports draw what stands here.

A column names a field of its row, and a format. `streamer/views/cells.py` writes the formats as text.
`streamer/web/static/js/cells.js` draws the same formats on the page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from streamer.schemas.formulacode import ADVANTAGES
from streamer.schemas.metrics import BOARD_METRICS
from streamer.views.columns import LIVE, Board, Column, unsorted
from streamer.views.named_columns import format_of, named
from streamer.views.wording import GRADE_MARKS

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
"""METRIC to the title, format and rank of its column; of a metric that is not here they follow from it."""


def metric(name: str, **changes: Any) -> Column:
    """The column of a METRIC of the leaderboards, best first, with these attributes changed."""
    of = BOARD_METRICS[name]
    plain = (name.replace("_", " "), format_of(of.unit), 14)
    title, format, rank = _METRICS.get(name, plain)
    first: Literal["greatest", "least"] = "greatest" if of.higher_is_better else "least"
    column = Column(name, title, format, of.path, sort=first, rank=rank, hint=of.description)
    return replace(column, **changes)


AGENT = Column("agent", "agent:model", "agent", ("agent_model",), sort="least", rank=0, least=22)
GRADE = Column("grade", "grade", "grade", ("grade",), sort="least", rank=1, hint=GRADE_MARKS)
BASIS = Column(
    "basis", "rests on", "basis", ("grade_basis",), sort="least", rank=7, hint="What the grade is of"
)
TRIALS_IN = Column("trials", "trials", "of", ("trials",), ("runs_planned",), "greatest", rank=6)
INFRASTRUCTURE = Column(
    "infrastructure",
    "w/o infra",
    "infrastructure",
    ("accuracy_excluding_infrastructure",),
    ("infrastructure_failures",),
    rank=10,
    hint="Accuracy without infrastructure failures, and how many those are",
)
BOTH_PASSES = Column("pass_at_k", "pass@k", "pass_at_ends", ("pass_at_k",), rank=9, on=("text",))
"""pass@1, and pass@k of the largest k."""
PASS_RATE = metric("pass_rate", format="pass_rate", hint="With where the final pass rate lies, in percent")
"""The pass rate with the interval of the final one."""

PLACE = Column(
    "place", "place", "place", ("place",), sort="least", rank=3, hint="Where it may truly stand, with 95 %"
)
IN_FLIGHT = Column("in_flight", "in flight", "some", ("in_flight",), rank=9)
DECIDED = Column("decided", "decided", "decided", ("uncertainty", "decided", "grade"), rank=7, on=("text",))

STATE = Column("state", "state", "state", ("state",), sort="least", rank=1, least=9)

_PROGRESS = (("progress", "done"), ("progress", "planned"))

RUNS = Board(
    "Runs",
    (
        Column("run", "run", "run", ("display_name",), ("run_id",), "least", rank=0, least=16),
        Column("id", "id", "id", ("run_id",), ("display_name",), rank=10, least=16, on=("terminal", "text")),
        Column("benchmark", "benchmark", "name", ("benchmark",), sort="least", rank=7, least=9),
        STATE,
        Column("filled", "progress", "filled", *_PROGRESS, sort="greatest", rank=2, on=("terminal",)),
        Column("trials", "trials", "progress", *_PROGRESS, sort="greatest", rank=3),
        metric("accuracy", title="all trials", rank=4, hint="Accuracy over all trials, whatever the agent"),
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
"""The agents of a run, for each value of a label."""

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
        Column(
            "uplift",
            "uplift",
            "gain_percent",
            ("tier_uplift",),
            sort="greatest",
            rank=2,
            hint="What the grade rests on, over the baseline tier's, minus 1",
        ),
        Column(
            "delta",
            "delta",
            "gain",
            ("tier_delta",),
            sort="greatest",
            rank=12,
            hint="What the grade rests on, minus the baseline tier's",
        ),
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
"""The same where the agents differ, so that their names stay."""

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
"""What trials, and the two sides of a comparison, are measured by."""

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


def leaders_of(name: str) -> Board:
    """The leaderboard of one METRIC, built-in or `metrics/NAME`."""
    value = replace(metric(name) if name in BOARD_METRICS else named(name, {}), path=("value",), sort=None)
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
"""Trials that have started and have no result."""

FAILURES = Board(
    "How the trials ended",
    (
        Column("mode", "failure mode", "name", ("mode",)),
        Column("count", "trials", "count", ("count",)),
        Column("share", "share", "percent", ("share",)),
    ),
)
