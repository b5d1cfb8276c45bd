"""What a run still has before it: its end, its cost, its running trials, and which places are open. Pure."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, NamedTuple

from pydantic import Field

from streamer.client.queries import ComparedRun
from streamer.schemas.base import Instant, Message, agent_model_label, optional
from streamer.schemas.events import PRIMARY_METRIC
from streamer.schemas.summaries import (
    SILENT_AFTER,
    AgentModelSummary,
    ComparedPair,
    ComparisonMissing,
    RunComparison,
    RunSummary,
    Statistics,
    TrialInFlight,
)
from streamer.statistics.ability import ErrorParts, JudgeError
from streamer.statistics.exact import nearest_float
from streamer.text import cents, counted
from streamer.views.cells import event_time_note, finite, place, share_of
from streamer.views.columns import Board, Column, best_first, primary_of
from streamer.views.decide.compare import PairStanding, pair_standings
from streamer.views.decide.history import Decision, decision_of
from streamer.views.models import NO_PREFIX, Label
from streamer.views.tables import Table, table_of

# -----------------------------------------------------------------------------
# Forecasts with an interval, and how people read them. Pure.


WIDTH = 3.0
"""Standard errors to each side of the logarithm. 1.96 would do if finished trials were a fair sample."""


class Estimate(NamedTuple):
    """A forecast with its interval, all three in the same unit; `low <= likely <= high`."""

    low: float
    likely: float
    high: float

    @classmethod
    def around(cls, likely: float, error: float, least: float = 0.0) -> Estimate:
        """A forecast with a standard error; the interval is one of ratios, so it reaches farther upwards.

        Args:
            least: what is certain already; the interval begins there at the lowest.

        >>> Estimate.around(0.0, 1.0), Estimate.around(100.0, 0.0)
        (Estimate(low=0.0, likely=0.0, high=0.0), Estimate(low=100.0, likely=100.0, high=100.0))
        >>> [round(end) for end in Estimate.around(100.0, 20.0)]
        [55, 100, 181]
        """
        open_part = likely - least
        if open_part <= 0:
            return cls(likely, likely, likely)
        factor = math.exp(WIDTH * math.sqrt(math.log1p((error / open_part) ** 2)))
        return cls(least + open_part / factor, likely, least + open_part * factor)


def end_words(at: datetime, left: Estimate) -> str:
    """When something ends, as clock times in the zone of `at`, and that it is a forecast.

    Args:
        at: the time that `left` is counted from.
        left: seconds.

    >>> from datetime import UTC
    >>> night = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)
    >>> end_words(night, Estimate(4200.0, 6000.0, 9000.0))
    'forecast: ends about 23:40 UTC, 23:10 to 00:30'
    >>> end_words(night, Estimate(200_000.0, 300_000.0, 500_000.0))
    'forecast: ends about 4 Feb 09:20 UTC, 3 Feb 05:33 to 6 Feb 16:53'
    """
    ends = [at + timedelta(seconds=seconds) for seconds in left]
    low, likely, high = (clock(end, at, ends[2]) for end in ends)
    return f"forecast: ends about {likely} {at:%Z}, {low} to {high}"


def clock(end: datetime, at: datetime, last: datetime | None = None) -> str:
    """A time as a clock shows it, with the day where it may be another one.

    Args:
        end: the time.
        at: now.
        last: the latest of the times that stand beside it; None: `end` itself.
    """
    far = (last or end) - at >= timedelta(days=1)
    return f"{end.day} {end:%b %H:%M}" if far else f"{end:%H:%M}"


def usd_words(total: Estimate) -> str:
    """What a run will cost.

    >>> usd_words(Estimate(10.0, 12.5, 18.0))
    'forecast: about $12.50 in all, $10.00 to $18.00'
    >>> usd_words(Estimate(0.002, 0.0042, 0.02))
    'forecast: about $0.0042 in all, $0.0020 to $0.02'
    """
    low, likely, high = map(cents, total)
    return f"forecast: about {likely} in all, {low} to {high}"


# -----------------------------------------------------------------------------
# How fast a run goes and what it costs: forecasts of time left and total cost, burn rate. Pure.
#
# Times are event times, so a replay of a run shows the same as the run itself. Page, terminal and reports
# show what stands here.
#
# **The forecast.** The missing trials of an agent:model take as long as its trials took so far. A running
# trial counts with its age: without that the first forecasts are too short, because long trials finish last.
# As many trials run at once as now, or as ran on average. Near the end some of these places stay empty, and
# the longest trial decides. The interval follows from how much durations and costs differ between trials, and
# from how few are known. It holds if nothing changes: no outage, no other concurrency.


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
        count: trials that this rests on.
    """

    trials: int
    mean: float
    spread: float
    count: int

    @property
    def total(self) -> float:
        return self.trials * self.mean

    @property
    def variance(self) -> float:
        """The variance of the total: trials differ, and their mean is known from a few only."""
        return self.trials * self.spread**2 * (1 + self.trials / max(1, self.count))


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
    passed = (now.at - start.at).total_seconds() if now.at and start.at else 0.0
    seconds = passed if passed > 0 else None
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


def _open_trials(run: RunSummary) -> int | None:
    """Trials that are awaited; None: there is no plan."""
    planned = run.progress.planned
    if run.status is not None:
        return 0
    return None if planned is None else max(0, planned - run.progress.done)


def _below(limit: float, forecast: Callable[[], Estimate | None]) -> Estimate | None:
    """A forecast; None if it reaches the limit, or if trials name amounts too large to calculate with."""
    try:
        estimate = forecast()
    except OverflowError:
        return None
    return estimate if estimate is not None and estimate.high < limit else None


def _seconds_left(
    run: RunSummary,
    came: int,
    seconds: float | None,
    agents: Sequence[AgentModelSummary],
    in_flight: Sequence[TrialInFlight],
) -> Estimate | None:
    pending = _open_trials(run)
    if not pending:
        return None if pending is None else Estimate(0.0, 0.0, 0.0)
    ages = _ages(run, in_flight)
    missing = _missing_durations(agents, ages)
    if not missing or sum(one.trials for one in missing) != pending:
        if came <= 0 or seconds is None:
            return None
        each = seconds / came
        likely = pending * each
        return Estimate.around(likely, math.sqrt(_Missing(pending, each, each, came).variance))
    worked = sum(_total_of(agent, "duration_seconds") for agent in agents)
    usual = (worked + sum(map(sum, ages.values()))) / seconds if seconds else 0.0
    at_once = min(float(pending), max(1.0, usual, float(len(in_flight))))
    return _time_for(
        missing, at_once, max((max(durations, default=0.0) for durations in ages.values()), default=0.0)
    )


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
    open_agents = [agent for agent in agents if _open_of(agent)]
    pooled_count = sum(agent.statistics["duration_seconds"].count for agent in agents)
    if not pooled_count:
        return []
    running = sum(map(sum, ages.values()))
    pooled = (sum(_total_of(agent, "duration_seconds") for agent in agents) + running) / pooled_count
    missing = []
    for agent in open_agents:
        durations = agent.statistics["duration_seconds"]
        own = sum(ages.get(agent.agent_model, ()))
        mean = (_total_of(agent, "duration_seconds") + own) / durations.count if durations.count else pooled
        missing.append(_Missing(_open_of(agent), mean, mean * _spread(durations), durations.count))
    return missing


def _projected_usd(
    run: RunSummary,
    cost: float | None,
    agents: Sequence[AgentModelSummary],
    in_flight: Sequence[TrialInFlight],
) -> Estimate | None:
    pending = _open_trials(run)
    if cost is None or pending is None:
        return None
    done = run.progress.done
    if not pending:
        return Estimate(cost, cost, cost)
    if done <= 0:
        return None
    open_agents = [agent for agent in agents if _open_of(agent)]
    if sum(map(_open_of, open_agents)) != pending or any(
        not a.statistics["cost_usd"].count for a in open_agents
    ):
        each = cost / done
        more = _Missing(pending, each, each, done)
        return Estimate.around(cost + more.total, math.sqrt(more.variance), least=cost)
    ages = _ages(run, in_flight)
    missing = [_missing_cost(agent, sum(ages.get(agent.agent_model, ()))) for agent in open_agents]
    error = math.sqrt(sum(one.variance for one in missing))
    return Estimate.around(cost + sum(one.total for one in missing), error, least=cost)


def _missing_cost(agent: AgentModelSummary, running_seconds: float) -> _Missing:
    """A running trial has cost as much a second as the finished ones did."""
    costs, worked = agent.statistics["cost_usd"], _total_of(agent, "duration_seconds")
    mean = (finite(costs.mean) or 0.0) * costs.count / max(1, agent.trials)
    mean *= 1 + running_seconds / worked if worked else 1.0
    return _Missing(_open_of(agent), mean, mean * _spread(costs), costs.count)


def _open_of(agent: AgentModelSummary) -> int:
    return max(0, (agent.runs_planned or 0) - agent.trials)


def _total_of(agent: AgentModelSummary, metric: str) -> float:
    """Sum of the known values."""
    statistics = agent.statistics[metric]
    return (finite(statistics.mean) or 0.0) * statistics.count


def _spread(statistics: Statistics) -> float:
    mean, deviation = finite(statistics.mean), finite(statistics.std_dev)
    if statistics.count < 2 or not mean or deviation is None:
        return UNSURE
    return max(LEAST_SPREAD, deviation / mean)


def _ages(run: RunSummary, in_flight: Iterable[TrialInFlight]) -> dict[str, list[float]]:
    """agent:model to the ages of its running trials at the last event, seconds."""
    ages: dict[str, list[float]] = {}
    for trial in in_flight:
        if trial.started_at is not None and run.last_event_at is not None:
            age = (run.last_event_at - trial.started_at).total_seconds()
            ages.setdefault(agent_model_label(trial.agent, trial.model), []).append(max(0.0, age))
    return ages


# -----------------------------------------------------------------------------
# A budget set by a viewer: whether a run has passed it, and whether it will. Pure.


BudgetState = Literal["passed", "within", "will_pass", "may_pass", "kept", "unknown"]

WORDS: dict[BudgetState, str] = {
    "passed": "over the budget of {usd}",
    "within": "within the budget of {usd}",
    "will_pass": "forecast: the budget of {usd} is passed{about}",
    "may_pass": "forecast: the budget of {usd} may be passed{about}",
    "kept": "forecast: the budget of {usd} is not passed",
    "unknown": "no forecast for the budget of {usd}",
}
"""Standing -> what people read; `about` is a clock time, or nothing."""


class BudgetOutlook(Message):
    """What becomes of a budget; it is about the known cost."""

    usd: float = Field(ge=0, description="The budget, USD.")
    standing: BudgetState = Field(
        description="`passed`: it costs more; `within`: nothing is awaited, and it does not; else by the "
        "interval of the forecast: `will_pass`, `may_pass`, `kept`; `unknown`: there is no forecast."
    )
    seconds_until: float | None = Field(
        ge=0,
        description="Until it is passed by the middle of both forecasts, seconds; null: it is, or is not "
        "passed, or no time is known.",
    )


def budget_of(usd: float, spent: float | None, pace: Eta) -> BudgetOutlook:
    """The outlook of a budget.

    Args:
        usd: the budget, USD, >= 0.
        spent: known cost so far, USD; None: no cost is known.
        pace: the forecasts of the run.

    >>> from streamer.views.decide.outlook import Estimate
    >>> pace = Eta(0.5, Estimate(3000.0, 3600.0, 5000.0), 20.0, Estimate(41.0, 44.0, 47.0))
    >>> [budget_of(usd, 20.0, pace).standing for usd in (10, 40, 45, 50)]
    ['passed', 'will_pass', 'may_pass', 'kept']
    >>> budget_of(32.0, 20.0, pace).seconds_until
    1800.0
    """
    total = pace.projected_usd
    if spent is not None and spent > usd:
        return BudgetOutlook(usd=usd, standing="passed", seconds_until=None)
    if spent is None or total is None:
        return BudgetOutlook(usd=usd, standing="unknown", seconds_until=None)
    if pace.seconds_left is not None and not pace.seconds_left.high:
        return BudgetOutlook(usd=usd, standing="within", seconds_until=None)
    if total.high <= usd:
        return BudgetOutlook(usd=usd, standing="kept", seconds_until=None)
    until = None
    if pace.seconds_left is not None and total.likely > usd:
        until = pace.seconds_left.likely * (usd - spent) / (total.likely - spent)
    state: BudgetState = "will_pass" if total.low > usd else "may_pass"
    return BudgetOutlook(usd=usd, standing=state, seconds_until=until)


def budget_words(outlook: BudgetOutlook, at: datetime | None) -> str:
    """The outlook of a budget as people read it.

    Args:
        at: the time that `seconds_until` is counted from; None: not known.

    >>> from datetime import UTC
    >>> night = datetime(2026, 1, 31, 2, 40, tzinfo=UTC)
    >>> budget_words(BudgetOutlook(usd=40.0, standing="will_pass", seconds_until=1800.0), night)
    'forecast: the budget of $40.00 is passed about 03:10 UTC'
    """
    about = ""
    if at is not None and outlook.seconds_until is not None:
        end = at + timedelta(seconds=outlook.seconds_until)
        about = f" about {clock(end, at)} {at:%Z}"
    return WORDS[outlook.standing].format(usd=cents(outlook.usd), about=about)


# -----------------------------------------------------------------------------
# What the error of a pass rate is made of, and what more tasks or attempts would bring (inference 6). Pure.


MORE_TASKS = 20
"""So many more tasks are asked about."""

FIRST_ERRORS = 3
"""Number of agents, the best first, of which page and reports say it unasked."""


class LargerRun(Message):
    """The estimate of a larger run: like this one, and with its mean cost."""

    standard_error: float = Field(ge=0, description="Of the pass rate, clustered by task.")
    trials: int = Field(ge=1, description="How many more trials it takes.")
    usd: float | None = Field(description="What they cost at the mean known cost, USD; null: none is known.")


class ErrorBudget(Message):
    """What the error of an agent's pass rate is made of, and what a larger run would make of it."""

    agent_model: Label
    standard_error: float = Field(ge=0, description="Of the pass rate, clustered by task.")
    tasks: float | None = Field(
        ge=0,
        le=1,
        description="Share of its variance from the choice of the tasks; null: a task has one attempt.",
    )
    repeats: float | None = Field(
        ge=0, le=1, description="Share from chance at each task; null: a task has one attempt."
    )
    infrastructure: float = Field(
        description="How much higher the pass rate is without trials that the infrastructure failed."
    )
    more_attempts: LargerRun | None = Field(
        description="One more attempt at each task; null: a task has one attempt."
    )
    more_tasks: LargerRun = Field(description="20 more tasks of this kind, attempted as often as these.")
    words: str = Field(description="The same in a sentence or two; names are not escaped.")


def error_budget(agent: AgentModelSummary) -> ErrorBudget | None:
    """The parts of an agent's error; None while results are missing, with one task, and with no error."""
    said = agent.uncertainty
    ability, repeat = (said.ability, said.repeat) if said else (None, None)
    trials = agent.trials if agent.verdict_trials is None else agent.verdict_trials
    if ability is None or ability.incomplete or trials < ability.tasks or not ability.standard_error:
        return None
    error, tasks = ability.standard_error, ability.tasks
    is_split = repeat is not None and repeat.tasks_covered == tasks
    parts = ErrorParts.of(error, repeat.standard_error if repeat and is_split else 0.0)
    mean_cost = finite(agent.mean_cost)

    def larger(attempts: int, more_tasks: int) -> LargerRun:
        more = attempts * tasks or max(1, round(more_tasks * trials / tasks))
        return LargerRun(
            standard_error=parts.error_with(tasks, trials, attempts=attempts, more_tasks=more_tasks),
            trials=more,
            usd=None if mean_cost is None else nearest_float(more * mean_cost),
        )

    without = agent.accuracy_excluding_infrastructure
    lost = 0.0 if without is None or agent.accuracy is None else without - agent.accuracy
    budget = ErrorBudget(
        agent_model=agent.agent_model,
        standard_error=error,
        tasks=parts.tasks / error**2 if is_split else None,
        repeats=parts.repeats / error**2 if is_split else None,
        infrastructure=lost if agent.infrastructure_failures else 0.0,
        more_attempts=larger(1, 0) if is_split else None,
        more_tasks=larger(0, MORE_TASKS),
        words="",
    )
    return budget.model_copy(update={"words": error_words(budget)})


def error_words(budget: ErrorBudget) -> str:
    """The parts of an error for people.

    >>> more = LargerRun(standard_error=0.0385, trials=89, usd=22.25)
    >>> sums = {"agent_model": "a:m", "standard_error": 0.041, "infrastructure": 0.0, "words": ""}
    >>> half = {"tasks": 0.73, "repeats": 0.27, "more_attempts": more, "more_tasks": more}
    >>> print(error_words(ErrorBudget(**sums, **half)))
    a:m: standard error 4.1 points; 73 % of its variance is from the choice of tasks, 27 % from chance on \
each task. Estimate: one more attempt at each task makes it 3.9 points for $22.25, 20 more tasks \
3.9 points for $22.25
    """
    split = "; the share of chance is known once each task has two attempts"
    if budget.tasks is not None and budget.repeats is not None:
        tasks = round(100 * budget.tasks)
        of_tasks = f"{tasks} % of its variance is from the choice of tasks"
        split = f"; {of_tasks}, {100 - tasks} % from chance on each task"
    lost = ""
    if budget.infrastructure:
        lost = f"; without infrastructure failures the rate is {_points(budget.infrastructure)} higher"
    attempt, tasks_more = budget.more_attempts, _larger_words(budget.more_tasks)
    first = f"one more attempt at each task makes it {_larger_words(attempt)}, " if attempt else ""
    makes = "" if attempt else " make it"
    return (
        f"{budget.agent_model}: standard error {_points(budget.standard_error)}{split}{lost}. "
        f"Estimate: {first}{MORE_TASKS} more tasks{makes} {tasks_more}"
    )


def _larger_words(run: LargerRun) -> str:
    return _points(run.standard_error) + ("" if run.usd is None else f" for {cents(run.usd)}")


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


_JUDGED = {"pass_rate": "the pass rate", "impl_rate": "the mean of the judge's scores"}


def judge_words(label: str, errors: Mapping[str, JudgeError]) -> list[str]:
    """What judges bring to the errors of an agent:model, a line for each mean; names are not escaped.

    >>> print(*judge_words("a:m", {"impl_rate": JudgeError(0.041, 0.27, 0.12, 20, 45)}))
    a:m: standard error of the mean of the judge's scores 4.1 points; 27 % of its variance is from chance on \
each task, including 12 % from the judge, by 20 of 45 judged trials that were judged more than once.
    """
    return [
        f"{label}: standard error of {_JUDGED[metric]} {_points(error.standard_error)}; {_judge_part(error)}."
        for metric, error in errors.items()
    ]


def _judge_part(error: JudgeError) -> str:
    if error.judge is None:
        return "the judge's share is unknown: no trial was judged more than once"
    judge = f"{100 * error.judge:.0f} %"
    told = f"{judge} of its variance is from the judge"
    if error.repeats is not None:
        chance = f"{100 * error.repeats:.0f} % of its variance is from chance on each task"
        told = f"{chance}, including {judge} from the judge"
    return (
        f"{told}, by {error.judged_again:,} of {error.judged:,} judged trials that were judged more than once"
    )


def error_budgets(
    agents: Iterable[AgentModelSummary], primary: str = PRIMARY_METRIC, *, first: bool = False
) -> list[ErrorBudget]:
    """The parts of the errors of a run's agents, the best agent first, baselines left out.

    Args:
        first: only of the first agents, and only where every task has several attempts: said unasked.
    """
    own = sorted(
        (one for one in agents if not one.baseline), key=lambda a: best_first(primary)(a.model_dump())
    )
    told = [budget for one in own if (budget := error_budget(one))]
    return [budget for budget in told if budget.tasks is not None][:FIRST_ERRORS] if first else told


def judge_hint(agents: Iterable[AgentModelSummary], run_id: str) -> str | None:
    """How to ask the log for the judge's part of an error; None: no judge has scored.

    Summaries hold a trial's score as it stands. Only the log has the ones before it.
    """
    if not any(one.coverage.get("impl_rate") for one in agents if not one.baseline):
        return None
    command = shlex.join(["streamer", "query", "run", run_id, "--judge"])
    return f"The judge's share of the errors is only in the log; {command} reads it there"


# -----------------------------------------------------------------------------
# What a run still has before it: its end, its cost, its running trials, and which places are open. Pure.


MOST_RUNNING = 200
"""So many running trials are listed, the longest first."""


class Forecast(Message):
    """A forecast with its interval; how it is made stands in `streamer/views/decide/outlook.py`."""

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
        description="What ages and forecasts count from: now, or the last event if that is later."
    )
    event_time: str | None = Field(
        description="Why the time of the last event is not this clock's; null: it may be."
    )
    seconds_left: Forecast | None = Field(
        description="Until the plan is filled, seconds from `at`; null: no plan, nothing to go by, or "
        "no event for 10 minutes."
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
    errors: list[ErrorBudget] = optional(
        "What the errors of the first three agents are made of; [] while results are missing, and where a "
        "task has one attempt.",
        [],
    )
    errors_note: str | None = optional(
        "How to read the judge's part of `errors` from the log; null: `errors` is [], or no judge has scored."
    )
    budget: BudgetOutlook | None = optional("Forecast for the requested budget; null if none was given.")
    decision: Decision | None = optional(
        "When the first two agents of the board are told apart; null: they are, or nothing is known of it."
    )


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
    left = left_at(pace.seconds_left, run.last_event_at, at)
    running = [] if run.status is not None else list(in_flight)
    comparison = compared.comparison if compared else None
    first, spent = _first_two(run, agents, compared), finite(run.total_cost)
    usd = None if pace.projected_usd is None or spent is None else pace.projected_usd.likely - spent
    decision = None
    if comparison and first and first[0].counts and run.status is None:
        sides, missing = (first[0].a, first[0].b), comparison.evidence_missing
        decision = decision_of(first[0].counts, sides, left and left.likely, usd, missing)
    said = [words for pair in first for words in pair.words]
    errors = error_budgets(agents, run.primary_metric, first=True)
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
        first_two=said if decision is None else [*said, decision.words],
        decision=decision,
        errors=errors,
        errors_note=judge_hint(agents, run.run_id) if errors else None,
        budget=None if budget_usd is None else budget_at(budget_usd, run, pace, at),
    )


def moment_of(last_event_at: datetime | None, now: datetime) -> datetime | None:
    """What ages count from: now, or the last event where that is ahead of this clock; None: no event.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> [f"{moment_of(noon + timedelta(minutes=m), noon):%H:%M}" for m in (-5, -60, 24)]
    ['12:00', '12:00', '12:24']
    """
    if last_event_at is None:
        return None
    return max(now, last_event_at)


def places_of(comparison: RunComparison | None) -> dict[str, str]:
    """agent:model to the places that it may truly have; {} where there are none."""
    ranked = comparison.agents if comparison else []
    return {agent.agent_model: place(agent.rank) for agent in ranked if agent.rank}


def _first_two(
    run: RunSummary, agents: Sequence[AgentModelSummary], compared: ComparedRun | None
) -> list[PairStanding]:
    """The board's first agent and the next; [] where they are not compared."""
    if compared is None or compared.comparison is None:
        return []
    order = best_first(primary_of(run.model_dump(include={"primary_metric"})))
    rows = sorted((agent.model_dump() for agent in agents if not agent.baseline), key=order)
    labels = [row["agent_model"] for row in rows[:2]]
    return pair_standings(compared, labels)


def budget_at(usd: float, run: RunSummary, pace: Eta, at: datetime | None) -> BudgetOutlook:
    """The outlook of a budget; its time counts from `at`, and a run that is silent has none."""
    budget = budget_of(usd, finite(run.total_cost), pace)
    if budget.seconds_until is None or run.last_event_at is None or at is None:
        return budget
    passed = at - run.last_event_at
    until = None if passed > SILENT_AFTER else max(0.0, budget.seconds_until - passed.total_seconds())
    return budget.model_copy(update={"seconds_until": until})


def left_at(left: Estimate | None, last: datetime | None, at: datetime | None) -> Estimate | None:
    """The time that is left from a moment after the last event; None: unknown, or the run is silent.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    >>> [left_at(Estimate(60, 300, 900), noon, noon + timedelta(minutes=m)) for m in (2, 11)]
    [Estimate(low=0.0, likely=180.0, high=780.0), None]
    """
    if left is None or last is None or at is None:
        return left
    if at - last > SILENT_AFTER and left.high:
        return None
    passed = (at - last).total_seconds()
    return Estimate(*(max(0.0, end - passed) for end in left))


def _longest_first(trials: Sequence[TrialInFlight]) -> list[TrialInFlight]:
    started = [trial for trial in trials if trial.started_at is not None]
    started.sort(key=lambda trial: str(trial.started_at and trial.started_at.isoformat()))
    return started + [trial for trial in trials if trial.started_at is None]


def _running(trial: TrialInFlight, at: datetime | None) -> Running:
    age = None
    if at is not None and trial.started_at is not None:
        age = max(0.0, (at - trial.started_at).total_seconds())
    return Running.like(
        trial,
        task=f"{trial.shard}: {trial.task_id}" if trial.shard else trial.task_id,
        agent_model=agent_model_label(trial.agent, trial.model),
        age_seconds=age,
    )


def _forecast(estimate: Estimate | None) -> Forecast | None:
    return estimate and Forecast.like(estimate)


# -----------------------------------------------------------------------------
# The places of a run's agents, and every two of them, as tables.


RANKS = Board(
    "Each agent's possible true ranks",
    (
        Column("agent_model", "agent:model", "name", ("agent_model",)),
        Column("rank", "place", "state", ("rank",)),
    ),
)
AGENT_PAIRS = Board(
    "Every two agents",
    (
        Column("a", "a", "name", ("a",)),
        Column("b", "b", "name", ("b",)),
        Column("wins", "only a passed", "count", ("wins",)),
        Column("losses", "only b passed", "count", ("losses",)),
        Column("ties", "the same", "count", ("ties",)),
        Column("unknown", "unknown", "count", ("unknown",)),
        Column("words", "conclusion", "state", ("words",)),
    ),
)
MISSING: dict[ComparisonMissing, str] = {
    "no_plan": "the run declared no complete plan of trials, tiers and subtests, and has not finished",
    "plan_exceeded": "there are more trials than planned, and the run has not finished",
    "too_many_agents": "more than 60 agents",
    "too_many_trials": "more than 50,000 trials, or 10,000 tasks",
    "no_verdicts": "trials have only numbers, and no verdict",
}
"""Why there are no ranks, for people."""


def comparison_tables(compared: ComparedRun) -> list[Table]:
    """The ranks, and every two agents in a sentence; [] without a comparison."""
    comparison = compared.comparison
    if comparison is None:
        return []
    ranked = [
        {"agent_model": agent.agent_model, "rank": agent.rank and place(agent.rank)}
        for agent in comparison.agents
    ]
    pairs = [
        {"a": one.a, "b": one.b, **_counts(one.counts), "words": "; ".join(one.words)}
        for one in pair_standings(compared)
    ]
    ranks = table_of(RANKS, ranked)._replace(note=_rank_note(comparison))
    return [ranks, table_of(AGENT_PAIRS, pairs)] if pairs else [ranks]


def _counts(counts: ComparedPair | None) -> dict[str, int]:
    return {} if counts is None else counts.model_dump(include={"wins", "ties", "losses", "unknown"})


def _rank_note(comparison: RunComparison) -> str:
    """What the ranks mean, or why there are none."""
    if comparison.rank_missing is None:
        looks = "by the sign test at the end" if comparison.ended else "however often you look until the end"
        missing = None if comparison.ended else comparison.evidence_missing
        only = f" Only the whole plan counts: {NO_PREFIX[missing]}." if missing else ""
        apart = sum(pair.left_out > 0 for pair in comparison.pairs)
        leave = f" Left out of {counted(apart, 'pair')}: tasks made in different ways." if apart else ""
        return (
            f"With 95 % probability every agent's true place is in its range, {looks}, all agents at "
            f"once.{only}{leave}"
        )
    return f"No ranks: {MISSING[comparison.rank_missing]}."
