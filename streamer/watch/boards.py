"""The content of each table: its columns, and what their rows are sorted by. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streamer.client.lifecycle import State
from streamer.schemas.metrics import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.text import UNSEEN, dollars, percent, ratio, shown, visible
from streamer.views.eta import finite, share_of
from streamer.views.formatting import age, largest_k, of_planned, share_of_pass, span
from streamer.views.wording import basis, marked_grade
from streamer.watch.columns import BoardColumn

if TYPE_CHECKING:
    pass

GRADES = "SABCDF"
NAME_LEAST = 16
"""A name is cut to no fewer characters than this."""

AGENT_LEAST = 22
"""Likewise the label of an agent:model, whose end names the version of the model."""

GOOD, BAD, FAIR = "green", "red", "yellow"
_GRADE_STYLES = {"S": f"bold {GOOD}", "A": GOOD, "B": "cyan", "C": "cyan", "D": FAIR, "F": BAD}
_STATE_STYLES: dict[State, str] = {
    "running": "cyan",
    "stalled": BAD,
    "finished": FAIR,
    "complete": GOOD,
    "unfinished": FAIR,
}


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in the list of runs.

    Attributes:
        run: its summary.
        state: see `streamer.client.lifecycle`.
    """

    run: RunSummary
    state: State


def run_columns(now: datetime) -> list[BoardColumn[RunLine]]:
    """The columns of the list of runs."""

    def share(line: RunLine) -> float | None:
        return share_of(line.run.progress.done, line.run.progress.planned)

    return [
        BoardColumn(
            "run",
            "run",
            lambda line: name_of(line.run),
            rank=0,
            value=lambda line: name_of(line.run).casefold(),
            descending=False,
            least=NAME_LEAST,
            left=True,
        ),
        BoardColumn("id", "id", _id, 10, least=NAME_LEAST, left=True),
        BoardColumn(
            "benchmark", "benchmark", lambda line: visible(line.run.benchmark), 7, least=9, left=True
        ),
        BoardColumn(
            "state",
            "state",
            lambda line: line.state,
            rank=1,
            least=9,
            left=True,
            style=lambda line: state_style(line.state),
        ),
        BoardColumn("progress", "progress", lambda line: percent(share(line)), 2, value=share),
        BoardColumn("trials", "trials", _run_trials, 3, value=lambda line: line.run.progress.done),
        BoardColumn("accuracy", "all trials", _run_accuracy, 4, value=lambda line: line.run.accuracy),
        BoardColumn("infrastructure", "w/o infra", lambda line: _without_infrastructure(line.run), 10),
        BoardColumn("cost", "cost", _run_cost, 5, value=lambda line: finite(line.run.total_cost)),
        BoardColumn("agents", "agents", lambda line: shown(line.run.agent_models), 8),
        BoardColumn("tiers", "tiers", lambda line: shown(line.run.tiers or None), 9),
        BoardColumn(
            "last",
            "last event",
            lambda line: age(line.run.last_event_at, now),
            rank=6,
            value=lambda line: line.run.last_event_at,
        ),
    ]


def _id(line: RunLine) -> str:
    """The id, where the name is another."""
    return visible(line.run.run_id) if line.run.display_name else UNSEEN


def _run_trials(line: RunLine) -> str:
    return of_planned(line.run.progress.done, line.run.progress.planned)


def _run_accuracy(line: RunLine) -> str:
    return percent(line.run.accuracy)


def _run_cost(line: RunLine) -> str:
    return dollars(line.run.total_cost)


def agent_columns(agents: Sequence[AgentModelSummary]) -> list[BoardColumn[AgentModelSummary]]:
    """The columns of the board of agents. Of the pass@k only the first and the last are shown."""
    most = max((k for agent in agents if (k := largest_k(agent.pass_at_k))), key=int, default=None)
    return [
        BoardColumn(
            "name",
            f"agents ({len(agents)})",
            agent_name,
            rank=0,
            value=lambda agent: agent.agent_model.casefold(),
            descending=False,
            least=AGENT_LEAST,
            left=True,
            style=lambda agent: "dim" if agent.baseline else "",
        ),
        *_outcome_columns(),
        _metric("mean_speedup", "speedup", 2, ratio),
        _metric("agent_advantage", "advantage", 3, ratio),
        _metric("total_cost", "cost", 4, dollars),
        _metric("cost_of_pass", "cost/pass", 5, dollars),
        *_other_columns(),
        BoardColumn("pass@1", "pass@1", lambda agent: share_of_pass(agent.pass_at_k, "1"), 9),
        BoardColumn("pass@k", f"pass@{most}", lambda agent: share_of_pass(agent.pass_at_k, most), 8),
        _metric("mean_duration", "duration", 13, span),
    ]


def default_sort_key(agents: Sequence[AgentModelSummary]) -> str:
    """Mean speedup where it is measured, else pass rate."""
    return "mean_speedup" if any(agent.formulacode for agent in agents) else "pass_rate"


def tier_columns(tiers: Sequence[TierSummary]) -> list[BoardColumn[TierSummary]]:
    """The columns of the tiers, pooled over agents."""
    return [
        BoardColumn(
            "name",
            f"tiers ({len(tiers)})",
            lambda tier: visible(tier.tier),
            rank=0,
            value=lambda tier: tier.tier,
            descending=False,
            least=10,
            left=True,
        ),
        *_outcome_columns(),
        BoardColumn("uplift", "uplift", lambda tier: percent(finite(tier.tier_uplift)), 2),
        BoardColumn("delta", "delta", lambda tier: ratio(tier.tier_delta), 12),
        _metric("total_cost", "cost", 5, dollars),
        _metric("cost_of_pass", "cost/pass", 4, dollars),
        *_other_columns(),
    ]


def name_of(run: RunSummary) -> str:
    """The run's name for people, or its id, fit for showing."""
    return visible(run.display_name or run.run_id)


def agent_name(agent: AgentModelSummary) -> str:
    """The label of an agent:model, fit for showing, as `streamer query` writes it."""
    return visible(agent.agent_model) + (" (baseline)" if agent.baseline else "")


def state_style(state: State) -> str:
    """Style of a run's state."""
    return _STATE_STYLES[state]


def grade_style(grade: str | None) -> str:
    """Style of a grade."""
    return _GRADE_STYLES.get(grade or "", "")


def _outcome_columns() -> list[BoardColumn[Any]]:
    return [
        BoardColumn(
            "grade",
            "grade",
            marked_grade,
            rank=1,
            value=lambda group: -GRADES.index(group.grade) if group.grade else None,
            left=True,
            style=lambda group: grade_style(group.grade),
        ),
        BoardColumn("basis", "rests on", basis, rank=7, left=True),
        BoardColumn(
            "trials",
            "trials",
            lambda group: of_planned(group.trials, group.runs_planned),
            rank=6,
            value=lambda group: group.trials,
        ),
        _metric("pass_rate", "pass rate", 1, percent),
    ]


def _other_columns() -> list[BoardColumn[Any]]:
    return [
        _metric("composite_score", "composite", 8, shown),
        _metric("accuracy", "accuracy", 10, percent),
        BoardColumn("infrastructure", "w/o infra", _without_infrastructure, 10),
        _metric("mean_cost", "mean cost", 11, dollars),
    ]


def _without_infrastructure(group: Any) -> str:
    """Accuracy without infrastructure failures, and how many those are; a dash where there were none."""
    if not group.infrastructure_failures:
        return UNSEEN
    return f"{percent(group.accuracy_excluding_infrastructure)} ({group.infrastructure_failures:,})"


def _metric(name: str, head: str, rank: int, text: Callable[[Any], str]) -> BoardColumn[Any]:
    """A METRIC of the boards, sorted best first."""
    metric = BOARD_METRICS[name]
    steps = metric.path

    def found(group: Any) -> Any:
        for step in steps:
            group = group.get(step) if isinstance(group, dict) else getattr(group, step, None)
        return group

    def value(group: Any) -> float | None:
        number = found(group)
        return None if number is None or number == "NaN" else float(number)

    return BoardColumn(name, head, lambda group: text(found(group)), rank, value, metric.higher_is_better)
