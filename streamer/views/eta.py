"""How fast a run goes and what it costs: forecasts of time left and total cost, burn rate. Pure.

Times are event times, so a replay of a run shows the same as the run itself. Page, terminal and reports show
what stands here.

**The forecast.** The missing trials of an agent:model take as long as its trials took so far. A running
trial counts with its age: without that the first forecasts are too short, because long trials finish last. As
many trials run at once as now, or as ran on average. Near the end some of these places stay empty, and the
longest trial decides. The interval follows from how much durations and costs differ between trials, and from
how few are known. It holds if nothing changes: no outage, no other concurrency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from streamer.schemas.identity import agent_model_label
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.schemas.summary_fields import Statistics
from streamer.views.estimate import Estimate
from streamer.views.formatting import finite, share_of

UNSURE = 1.0
"""Spread of durations and costs over their mean, where fewer than two are known."""

LEAST_SPREAD = 0.2
"""No trials are taken to be more alike than this."""

LONGEST_SECONDS = 1000 * 365.25 * 86_400
"""A time left of a thousand years or more is not forecast: no calendar shows when it ends."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Where a run stood.

    Attributes:
        at: event time, None: unknown.
        done: slots filled.
        cost: known cost in USD, None: no cost is known.
    """

    at: datetime | None
    done: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Eta:
    """The forecasts that follow from where a run stands; None: unknown.

    Attributes:
        share: filled part of the plan, 0 to 1.
        seconds_left: until the plan is filled, counted from the last event; 0: nothing is awaited.
        usd_per_hour: known cost per hour of event time.
        projected_usd: known cost once the plan is filled.
    """

    share: float | None
    seconds_left: Estimate | None
    usd_per_hour: float | None
    projected_usd: Estimate | None


@dataclass(frozen=True, slots=True)
class _Missing:
    """The missing trials of one agent:model, and what one of them takes.

    Attributes:
        trials: how many, 1 or more.
        mean: expected duration (s) or cost (USD) of one.
        spread: standard deviation between trials.
        known: trials that this rests on.
    """

    trials: int
    mean: float
    spread: float
    known: int

    @property
    def total(self) -> float:
        return self.trials * self.mean

    @property
    def variance(self) -> float:
        """The variance of the total: trials differ, and their mean is known from a few only."""
        return self.trials * self.spread**2 * (1 + self.trials / max(1, self.known))


def eta_of(
    run: RunSummary,
    since: Observation | None = None,
    agents: Sequence[AgentModelSummary] = (),
    in_flight: Sequence[TrialInFlight] = (),
) -> Eta:
    """The pace of a run, and the forecasts of its end and of its cost.

    A run that its harness has ended awaits nothing, whatever its plan said. While the plan is still being
    read, nothing is forecast.

    Args:
        run: as it stands now.
        since: where the pace is taken from if the plan does not say when the run started.
        agents: its agent:models. Without them the forecast rests on the number of trials alone.
        in_flight: its running trials; their ages count.
    """
    now = observation_of(run)
    start = Observation(run.started_at, 0, None) if run.started_at else since or now
    seconds = seconds_between(start, now)
    spent = None if now.cost is None else now.cost - (start.cost or 0.0)
    rate = None if spent is None or seconds is None else spent * 3600 / seconds
    left = partial(_seconds_left, run, now.done - start.done, seconds, agents, in_flight)
    return Eta(
        share=share_of(now.done, run.progress.planned),
        seconds_left=_below(LONGEST_SECONDS, left),
        usd_per_hour=rate if rate is None or math.isfinite(rate) else None,
        projected_usd=_below(math.inf, partial(_projected_usd, run, now.cost, agents, in_flight)),
    )


def observation_of(run: RunSummary) -> Observation:
    """Where a run stands now."""
    return Observation(run.last_event_at, run.progress.done, finite(run.total_cost))


def seconds_between(start: Observation, now: Observation) -> float | None:
    """Event time that passed, > 0; None: unknown, or no time has passed.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> seconds_between(Observation(noon, 0, None), Observation(noon.replace(minute=1), 1, None))
    60.0
    """
    if start.at is None or now.at is None:
        return None
    seconds = (now.at - start.at).total_seconds()
    return seconds if seconds > 0 else None


def _open_trials(run: RunSummary) -> int | None:
    """Trials that are awaited; None: there is no plan."""
    planned = run.progress.planned
    if run.status is not None:
        return 0
    return None if planned is None else max(0, planned - run.progress.done)


def _below(limit: float, forecast: Callable[[], Estimate | None]) -> Estimate | None:
    """A forecast; None if it reaches the limit, or if trials name amounts too large to calculate with."""
    try:
        found = forecast()
    except OverflowError:
        return None
    return found if found is not None and found.high < limit else None


def _seconds_left(
    run: RunSummary,
    came: int,
    seconds: float | None,
    agents: Sequence[AgentModelSummary],
    in_flight: Sequence[TrialInFlight],
) -> Estimate | None:
    awaited = _open_trials(run)
    if not awaited:
        return None if awaited is None else Estimate(0.0, 0.0, 0.0)
    ages = _ages(run, in_flight)
    missing = _missing_durations(agents, ages)
    if not missing or sum(one.trials for one in missing) != awaited:
        if came <= 0 or seconds is None:
            return None
        each = seconds / came
        likely = awaited * each
        return Estimate.around(likely, math.sqrt(_Missing(awaited, each, each, came).variance))
    worked = sum(_known(agent, "duration_seconds") for agent in agents)
    usual = (worked + sum(map(sum, ages.values()))) / seconds if seconds else 0.0
    at_once = min(float(awaited), max(1.0, usual, float(len(in_flight))))
    return _time_for(missing, at_once, max((max(held, default=0.0) for held in ages.values()), default=0.0))


def _time_for(missing: Sequence[_Missing], at_once: float, oldest: float) -> Estimate:
    """Time for the missing trials, so many at once: the shared work, and the last ones alone."""
    trials = sum(one.trials for one in missing)
    mean = sum(one.total for one in missing) / trials
    spread = math.sqrt(sum(one.trials * one.spread**2 for one in missing) / trials)
    last = spread * (sum(1 / place for place in range(1, round(at_once) + 1)) - 1)
    done_of_running = min(oldest, mean) / 2 if trials <= at_once else 0.0
    likely = max(sum(one.total for one in missing) / at_once + last - done_of_running, mean / 10)
    variance = sum(one.variance for one in missing) / at_once**2 + spread**2
    return Estimate.around(likely, math.sqrt(variance))


def _missing_durations(agents: Sequence[AgentModelSummary], ages: dict[str, list[float]]) -> list[_Missing]:
    """What the missing trials of each agent:model will take; [] where no duration is known at all."""
    held = [agent for agent in agents if _open_of(agent)]
    pooled_known = sum(agent.statistics["duration_seconds"].count for agent in agents)
    if not pooled_known:
        return []
    running = sum(map(sum, ages.values()))
    pooled = (sum(_known(agent, "duration_seconds") for agent in agents) + running) / pooled_known
    found = []
    for agent in held:
        durations = agent.statistics["duration_seconds"]
        own = sum(ages.get(agent.agent_model, ()))
        mean = (_known(agent, "duration_seconds") + own) / durations.count if durations.count else pooled
        found.append(_Missing(_open_of(agent), mean, mean * _spread(durations), durations.count))
    return found


def _projected_usd(
    run: RunSummary,
    cost: float | None,
    agents: Sequence[AgentModelSummary],
    in_flight: Sequence[TrialInFlight],
) -> Estimate | None:
    awaited = _open_trials(run)
    if cost is None or awaited is None:
        return None
    done = run.progress.done
    if not awaited:
        return Estimate(cost, cost, cost)
    if done <= 0:
        return None
    held = [agent for agent in agents if _open_of(agent)]
    if sum(map(_open_of, held)) != awaited or any(not a.statistics["cost_usd"].count for a in held):
        each = cost / done
        more = _Missing(awaited, each, each, done)
        return Estimate.around(cost + more.total, math.sqrt(more.variance), least=cost)
    ages = _ages(run, in_flight)
    missing = [_missing_cost(agent, sum(ages.get(agent.agent_model, ()))) for agent in held]
    error = math.sqrt(sum(one.variance for one in missing))
    return Estimate.around(cost + sum(one.total for one in missing), error, least=cost)


def _missing_cost(agent: AgentModelSummary, running_seconds: float) -> _Missing:
    """A running trial has cost as much a second as the finished ones did."""
    costs, worked = agent.statistics["cost_usd"], _known(agent, "duration_seconds")
    mean = (finite(costs.mean) or 0.0) * costs.count / max(1, agent.trials)
    mean *= 1 + running_seconds / worked if worked else 1.0
    return _Missing(_open_of(agent), mean, mean * _spread(costs), costs.count)


def _open_of(agent: AgentModelSummary) -> int:
    return max(0, (agent.runs_planned or 0) - agent.trials)


def _known(agent: AgentModelSummary, metric: str) -> float:
    """Sum of the known values."""
    held = agent.statistics[metric]
    return (finite(held.mean) or 0.0) * held.count


def _spread(held: Statistics) -> float:
    mean, deviation = finite(held.mean), finite(held.std_dev)
    if held.count < 2 or not mean or deviation is None:
        return UNSURE
    return max(LEAST_SPREAD, deviation / mean)


def _ages(run: RunSummary, in_flight: Iterable[TrialInFlight]) -> dict[str, list[float]]:
    """agent:model to the ages of its running trials at the last event, seconds."""
    found: dict[str, list[float]] = {}
    for trial in in_flight:
        if trial.started_at is not None and run.last_event_at is not None:
            age = (run.last_event_at - trial.started_at).total_seconds()
            found.setdefault(agent_model_label(trial.agent, trial.model), []).append(max(0.0, age))
    return found
