"""What a run still has before it: its end, its cost, its running trials, and which places are open. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import Field

from streamer.client.lifecycle import SILENT_AFTER
from streamer.client.results import ComparedRun
from streamer.schemas.base import Instant, Message
from streamer.schemas.comparison import RunComparison
from streamer.schemas.identity import agent_model_label
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.views.budget import BudgetOutlook, budget_of
from streamer.views.comparisons import MISSING, pair_standing
from streamer.views.estimate import Estimate
from streamer.views.eta import Eta, eta_of
from streamer.views.formatting import event_time_note, finite, place
from streamer.views.models import Label
from streamer.views.wording import best_first, primary_of

MOST_RUNNING = 200
"""So many running trials are listed, the longest first."""


class Forecast(Message):
    """A forecast with its interval; how it is made stands in `streamer/views/eta.py`."""

    low: float = Field(description="Lower end, in the unit of the field.")
    likely: float = Field(description="The middle.")
    high: float = Field(description="Upper end.")


class Running(Message):
    """A trial that has started and has no result."""

    task: str = Field(description="The problem; with the original run before it in a pooled one.")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = Field(description="Prompt tier; null where there is none.")
    subtest: str | None = Field(description="Variant inside the tier; null where there is none.")
    started_at: Instant | None = Field(description="The earliest start reported; null: no time is known.")
    age_seconds: float | None = Field(description="From the start to `at`, >= 0; null: not known.")


class Outlook(Message):
    """What a run still has before it."""

    at: Instant | None = Field(
        description="What ages and forecasts count from: the last event, or now while the run lives."
    )
    event_time: str | None = Field(
        description="Why the time of the last event is not this clock's; null: it may be."
    )
    seconds_left: Forecast | None = Field(
        description="Until the plan is filled, seconds from `at`; null: no plan, or nothing to go by."
    )
    usd_per_hour: float | None = Field(description="Known cost per hour of event time, USD.")
    total_usd: Forecast | None = Field(description="Known cost once the plan is filled, USD.")
    in_flight: int = Field(ge=0, description="Running trials that are known.")
    running: list[Running] = Field(description="The running trials, the longest first; at most 200.")
    places: dict[str, str] = Field(
        description="agent:model to the places that it may truly have: `1`, or `1-3` (inference 7)."
    )
    places_missing: str | None = Field(description="Why there are none; null: there are, or one agent.")
    first_two: list[str] = Field(
        description="What may be said of the first two agents of the board, one sentence each."
    )
    budget: BudgetOutlook | None = Field(default=None, description="Of the budget asked for; null: of none.")


def outlook_of(
    run: RunSummary,
    agents: Sequence[AgentModelSummary],
    in_flight: Sequence[TrialInFlight],
    compared: ComparedRun | None,
    now: datetime,
    budget_usd: float | None = None,
) -> Outlook:
    """The outlook of a run as it stands.

    Args:
        run: as it stands now.
        agents: its agent:models, baselines too.
        in_flight: its running trials.
        compared: its agents compared; None: not known.
        now: the time of asking.
        budget_usd: known cost that the run should not pass, USD; None: no budget.
    """
    at = moment_of(run.last_event_at, now)
    pace = eta_of(run, None, agents, in_flight)
    left = _since(pace.seconds_left, run.last_event_at, at)
    running = [] if run.status is not None else list(in_flight)
    comparison = compared.comparison if compared else None
    return Outlook(
        at=at,
        event_time=event_time_note(run.last_event_at, now),
        seconds_left=_forecast(left),
        usd_per_hour=pace.usd_per_hour,
        total_usd=_forecast(pace.projected_usd),
        in_flight=len(running),
        running=[_running(trial, at) for trial in _longest_first(running)[:MOST_RUNNING]],
        places=places_of(comparison),
        places_missing=MISSING[comparison.rank_missing] if comparison and comparison.rank_missing else None,
        first_two=_first_two(run, agents, compared),
        budget=None if budget_usd is None else _budget(budget_usd, run, pace, at),
    )


def moment_of(last_event_at: datetime | None, now: datetime) -> datetime | None:
    """What ages count from: now while the run lives by this clock, else its last event; None: no event.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> [f"{moment_of(noon + timedelta(minutes=m), noon):%H:%M}" for m in (-5, -60, 24)]
    ['12:00', '11:00', '12:24']
    """
    if last_event_at is None:
        return None
    return now if timedelta() <= now - last_event_at <= SILENT_AFTER else last_event_at


def places_of(comparison: RunComparison | None) -> dict[str, str]:
    """agent:model to the places that it may truly have; {} where there are none."""
    ranked = comparison.agents if comparison else []
    return {agent.agent_model: place(agent.rank) for agent in ranked if agent.rank}


def _first_two(
    run: RunSummary, agents: Sequence[AgentModelSummary], compared: ComparedRun | None
) -> list[str]:
    """The words of the board's first agent and the next."""
    if compared is None or compared.comparison is None:
        return []
    order = best_first(primary_of(run.model_dump(include={"primary_metric"})))
    rows = sorted((agent.model_dump() for agent in agents if not agent.baseline), key=order)
    labels = [row["agent_model"] for row in rows[:2]]
    held = [agent.agent_model for agent in compared.comparison.agents]
    for pair in compared.comparison.pairs:
        if {held[pair.a], held[pair.b]} == set(labels):
            found = pair_standing(compared.comparison, pair, held[pair.a], held[pair.b], compared.tasks)
            return found.words
    return []


def _budget(usd: float, run: RunSummary, pace: Eta, at: datetime | None) -> BudgetOutlook:
    """The outlook of a budget; its time counts from `at`, too."""
    found = budget_of(usd, finite(run.total_cost), pace)
    if found.seconds_until is None or run.last_event_at is None or at is None:
        return found
    passed = (at - run.last_event_at).total_seconds()
    return found.model_copy(update={"seconds_until": max(0.0, found.seconds_until - passed)})


def _since(left: Estimate | None, last: datetime | None, at: datetime | None) -> Estimate | None:
    """The time that is left from a later moment on."""
    if left is None or last is None or at is None:
        return left
    passed = (at - last).total_seconds()
    return Estimate(*(max(0.0, end - passed) for end in left))


def _longest_first(trials: Sequence[TrialInFlight]) -> list[TrialInFlight]:
    known = [trial for trial in trials if trial.started_at is not None]
    known.sort(key=lambda trial: str(trial.started_at and trial.started_at.isoformat()))
    return known + [trial for trial in trials if trial.started_at is None]


def _running(trial: TrialInFlight, at: datetime | None) -> Running:
    age = None
    if at is not None and trial.started_at is not None:
        age = max(0.0, (at - trial.started_at).total_seconds())
    return Running(
        task=f"{trial.shard}: {trial.task_id}" if trial.shard else trial.task_id,
        attempt=trial.attempt,
        agent_model=agent_model_label(trial.agent, trial.model),
        tier=trial.tier,
        subtest=trial.subtest,
        started_at=trial.started_at,
        age_seconds=age,
    )


def _forecast(estimate: Estimate | None) -> Forecast | None:
    return estimate and Forecast(low=estimate.low, likely=estimate.likely, high=estimate.high)
