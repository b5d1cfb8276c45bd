"""A budget: what is sure, what is a forecast, and when it will be passed."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from math import log
from random import Random
from typing import Any, NamedTuple

import pytest

from streamer.client.folded import answers_of
from streamer.client.queries import RunAnswers
from streamer.schemas.summaries import AgentModelSummary, ComparedPair, RunSummary, TrialInFlight
from streamer.statistics.pairs import e_value
from streamer.views.cells import EVENT_TIME
from streamer.views.decide import outlook
from streamer.views.decide.history import decision_of, pairs_to_decide
from streamer.views.decide.outlook import Estimate, Eta, budget_of, error_budgets, eta_of, outlook_of
from tests.support.builders import a_run_change, an_agent_model_change, present
from tests.support.events import Event, a_plan, a_start, a_trial, folded

AT = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)
NOTHING_LEFT = Estimate(0.0, 0.0, 0.0)
HOUR = Estimate(3000.0, 3600.0, 5000.0)


@pytest.mark.parametrize(
    ("usd", "spent", "left", "total", "standing"),
    [
        (10.0, 10.0, NOTHING_LEFT, Estimate(10.0, 10.0, 10.0), "within"),
        (9.9, 10.0, NOTHING_LEFT, Estimate(10.0, 10.0, 10.0), "passed"),
        (9.9, 10.0, None, None, "passed"),
        (20.0, 10.0, None, None, "unknown"),
        (20.0, None, HOUR, None, "unknown"),
        (40.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "will_pass"),
        (41.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "may_pass"),
        (46.9, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "may_pass"),
        (47.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "kept"),
        (0.0, 0.0, HOUR, Estimate(0.0, 0.0, 0.0), "kept"),
    ],
)
def test_a_budget_stands_as_spending_and_the_interval_of_the_forecast_say(
    usd: float,
    spent: float | None,
    left: Estimate | None,
    total: Estimate | None,
    standing: outlook.BudgetState,
) -> None:
    assert budget_of(usd, spent, Eta(0.5, left, None, total)).standing == standing


def test_it_is_passed_where_spending_in_proportion_to_time_reaches_it() -> None:
    pace = Eta(0.5, HOUR, None, Estimate(41.0, 44.0, 47.0))
    assert budget_of(40.0, 10.0, pace).seconds_until == pytest.approx(3600 * 30 / 34)
    assert budget_of(10.0, 10.0, pace).seconds_until == 0
    assert budget_of(45.0, 10.0, pace).seconds_until is None
    assert budget_of(40.0, 10.0, pace.__class__(0.5, None, None, pace.projected_usd)).seconds_until is None


@pytest.mark.parametrize(
    ("standing", "seconds", "at", "said"),
    [
        ("passed", None, AT, "over the budget of $1,040.00"),
        ("within", None, AT, "within the budget of $1,040.00"),
        ("will_pass", 600.0, AT, "forecast: the budget of $1,040.00 is passed about 22:10 UTC"),
        ("will_pass", 90_000.0, AT, "forecast: the budget of $1,040.00 is passed about 1 Feb 23:00 UTC"),
        ("will_pass", 5.0, None, "forecast: the budget of $1,040.00 is passed"),
        ("may_pass", None, AT, "forecast: the budget of $1,040.00 may be passed"),
        ("kept", None, AT, "forecast: the budget of $1,040.00 is not passed"),
        ("unknown", None, AT, "no forecast for the budget of $1,040.00"),
    ],
)
def test_each_standing_has_its_words(
    standing: outlook.BudgetState, seconds: float | None, at: datetime | None, said: str
) -> None:
    assert (
        outlook.budget_words(outlook.BudgetOutlook(usd=1040.0, standing=standing, seconds_until=seconds), at)
        == said
    )


START = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)


def a_run(minutes: float | None, done: int, planned: int | None, **fields: Any) -> RunSummary:
    """A run whose last event came so many minutes after its start."""
    at = None if minutes is None else (START + timedelta(minutes=minutes)).isoformat()
    given = {"started_at": START.isoformat(), "last_event_at": at} | fields
    change = a_run_change(progress={"done": done, "planned": planned}, **given)
    return RunSummary.model_validate(change.summary)


def likely(pace: Eta) -> tuple[float | None, float | None]:
    """The middles of both forecasts."""
    return (pace.seconds_left and pace.seconds_left.likely, pace.projected_usd and pace.projected_usd.likely)


LATER = a_run(10, 6, 10, total_cost=2.0, started_at=None)


@pytest.mark.parametrize(
    ("run", "since", "expected"),
    [
        # 3 of 12 trials in 30 minutes for 1.5 USD: 9 more take 90 minutes; 3 USD an hour; 6 USD in all.
        (a_run(30, 3, 12, total_cost=1.5), None, (0.25, 3.0, 5400.0, 6.0)),
        (a_run(30, 3, 12, total_cost=0.0), None, (0.25, 0.0, 5400.0, 0.0)),
        (a_run(1, 1, 5, total_cost=0.1), None, (0.2, 6.0, 240.0, 0.5)),
        (a_run(30, 3, None, total_cost=1.5), None, (None, 3.0, None, None)),
        (a_run(60 * 24 * 365, 1, 10**9), None, (1e-9, None, None, None)),  # an end that no calendar has
        (a_run(60, 2, 4, total_cost=2.0, status="aborted"), None, (0.5, 2.0, 0.0, 2.0)),
        (a_run(1, 0, 12), None, (0.0, None, None, None)),
        # No event time, one at the start, or one before it (clocks of two machines).
        *(
            (a_run(minutes, 3, 12, total_cost=1.5), None, (0.25, None, None, 6.0))
            for minutes in (None, 0, -5)
        ),
        # No start is known: from 4 trials and 1 USD to 6 and 2 USD in 10 minutes; nothing came; two went.
        (LATER, outlook.Observation(START, 4, 1.0), (0.6, 6.0, 1200.0, 10 / 3)),
        (LATER, outlook.observation_of(LATER), (0.6, None, None, 10 / 3)),
        (LATER, None, (0.6, None, None, 10 / 3)),
        (a_run(10, 6, 10, started_at=None), outlook.Observation(START, 8, 1.0), (0.6, None, None, None)),
        # All is in.
        (a_run(60, 4, 4, total_cost=2.0), None, (1.0, 2.0, 0.0, 2.0)),
        (a_run(60, 5, 4, total_cost=2.0), None, (1.0, 2.0, 0.0, 2.0)),
    ],
)
def test_the_rest_takes_and_costs_what_the_trials_so_far_took_and_cost(
    run: RunSummary, since: outlook.Observation | None, expected: tuple[float | None, ...]
) -> None:
    pace = eta_of(run, since)
    assert (pace.share, pace.usd_per_hour, *likely(pace)) == pytest.approx(expected)
    if pace.share == 1.0:
        assert (pace.seconds_left, pace.projected_usd) == (NOTHING_LEFT, Estimate(2.0, 2.0, 2.0))
    elif expected[2]:
        seconds = present(pace.seconds_left)
        assert seconds.low < seconds.likely < seconds.high


@pytest.mark.parametrize("cost", [1e200, 1.7e308, None, "Infinity", "NaN"])
def test_a_cost_that_cannot_be_calculated_with_leaves_the_run_without_that_forecast(cost: object) -> None:
    pace = eta_of(a_run(30, 3, 12, total_cost=cost))
    assert pace.projected_usd is None
    assert pace.seconds_left is not None
    assert pace.usd_per_hour is None or isinstance(cost, float)


def an_agent(done: int, planned: int, mean: float, spread: float, **fields: Any) -> AgentModelSummary:
    """Trials of a mean duration in seconds; each costs a cent a second."""
    change = an_agent_model_change(trials=done, runs_planned=planned, **fields)
    assert change.summary is not None
    stored = change.summary["statistics"]
    for metric, unit in (("duration_seconds", 1.0), ("cost_usd", 0.01)):
        stored[metric] = stored[metric] | {"count": done, "mean": mean * unit, "std_dev": spread * unit}
    return AgentModelSummary.model_validate(change.summary)


def running(started: datetime, task: str = "t", agent: str = "claude", model: str = "opus") -> TrialInFlight:
    slot = {"shard": "", "task_id": task, "attempt": 1, "agent": agent, "model": model}
    return TrialInFlight.model_validate(
        dict.fromkeys(TrialInFlight.model_fields) | slot | {"started_at": started}
    )


def test_the_ages_of_running_trials_make_the_rest_take_longer_and_cost_more() -> None:
    """10 of 20 trials of 60 s in 10 minutes; one has been running for 5 minutes: 90 s each, 10 more."""
    run, agents = a_run(10, 10, 20, total_cost=6.0), [an_agent(10, 20, 60.0, 12.0)]
    aged = eta_of(run, None, agents, [running(START + timedelta(minutes=5))])
    assert likely(eta_of(run, None, agents)) == (pytest.approx(600.0), pytest.approx(12.0))
    assert likely(aged) == (pytest.approx(600.0, rel=0.05), pytest.approx(15.0))


def test_more_trials_at_once_end_sooner() -> None:
    run, agents = a_run(10, 10, 50), [an_agent(10, 50, 60.0, 12.0)]
    at = START + timedelta(minutes=10)
    one, eight = (
        present(eta_of(run, None, agents, [running(at, f"t{n}") for n in range(count)]).seconds_left)
        for count in (1, 8)
    )
    assert eight.high < one.low


class _Trial(NamedTuple):
    begun: float
    ended: float


def a_simulated_run(seed: int, trials: int = 178, at_once: int = 8) -> list[_Trial]:
    """Half of the trials fail, and failures take three times as long."""
    random, free, result = Random(seed), [0.0] * at_once, []
    for _ in range(trials):
        place = free.index(min(free))
        begun = free[place]
        free[place] += random.lognormvariate(5, 0.7) * random.choice((1, 3))
        result.append(_Trial(begun, free[place]))
    return result


def at_look(trials: list[_Trial], share: float) -> tuple[Eta, float, float]:
    """The forecast once that share of the trials is in; the time that was left, and the cost in the end."""
    now = sorted(trial.ended for trial in trials)[int(share * len(trials))]
    done = [trial.ended - trial.begun for trial in trials if trial.ended <= now]
    begun = {
        f"t{n}": START + timedelta(seconds=t.begun) for n, t in enumerate(trials) if t.begun <= now < t.ended
    }
    flight = [running(at, task) for task, at in begun.items()]
    mean = sum(done) / len(done)
    spread = (sum((d - mean) ** 2 for d in done) / len(done)) ** 0.5
    run = a_run(now / 60, len(done), len(trials), total_cost=0.01 * sum(done))
    pace = eta_of(run, None, [an_agent(len(done), len(trials), mean, spread)], flight)
    cost = 0.01 * sum(trial.ended - trial.begun for trial in trials)
    return pace, max(trial.ended for trial in trials) - now, cost


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_the_intervals_of_simulated_runs_hold_the_end_and_the_cost(share: float) -> None:
    """Of 40 runs at least 36; and the middle is no more than a fifth off on average."""
    in_time = in_cost = 0
    errors = []
    for seed in range(40):
        pace, left, cost = at_look(a_simulated_run(seed), share)
        seconds, usd = present(pace.seconds_left), present(pace.projected_usd)
        in_time += seconds.low <= left <= seconds.high
        in_cost += usd.low <= cost <= usd.high
        errors.append(log(seconds.likely / left))
    assert (in_time >= 36, in_cost >= 34) == (True, True), (in_time, in_cost)
    assert abs(sum(errors) / len(errors)) < 0.2


LAST = START + timedelta(minutes=40)


def answers(events: Iterable[Event]) -> RunAnswers:
    return answers_of(folded(events)[0].run("run-1"))


def an_outlook(now: datetime, budget_usd: float | None = None, **finished: object) -> outlook.Outlook:
    """Four of ten trials in after 40 minutes, two running since minute 30 and 38."""
    times = [START + timedelta(minutes=minutes) for minutes in range(41)]
    started = {"t5": times[38], "t6": times[30]}
    events = [a_plan(tasks=10, attempts=1, agent_models=["terminus:gpt-5"], started_at=START.isoformat())]
    events += [
        a_trial(task_id=f"t{n}", finished_at=times[10 * n].isoformat(), duration_seconds=600.0, cost_usd=0.5)
        for n in range(1, 5)
    ]
    events += [a_start(task_id=task, started_at=at.isoformat()) for task, at in started.items()]
    if finished:
        events.append({"type": "run_finished", "run_id": "run-1", **finished})
    found = answers(events)
    flight = [running(at, task, "terminus", "gpt-5") for task, at in started.items()]
    return outlook_of(found.run, found.agents, flight, None, now, budget_usd)


def test_running_trials_are_listed_by_age_the_longest_first_and_one_agent_has_no_place() -> None:
    result = an_outlook(LAST + timedelta(minutes=1))
    assert [(one.task, one.age_seconds) for one in result.running] == [("t6", 660.0), ("t5", 180.0)]
    assert (result.in_flight, result.places, result.places_missing, result.first_two) == (2, {}, None, [])


def test_of_a_simulated_run_ages_count_from_the_last_event_and_its_time_is_called_so() -> None:
    result = an_outlook(LAST - timedelta(minutes=24))
    assert [one.age_seconds for one in result.running] == [600.0, 120.0]
    assert result.event_time == EVENT_TIME


def test_a_trial_that_hangs_grows_older_without_events_and_no_end_is_forecast() -> None:
    """Before that the same end is forecast whenever one asks, and a run that has ended awaits nothing."""
    result = an_outlook(LAST + timedelta(minutes=36), budget_usd=7.5)
    assert [one.age_seconds for one in result.running] == [46 * 60.0, 38 * 60.0]
    assert (result.event_time, result.seconds_left) == (None, None)
    assert present(result.budget).seconds_until is None
    first, later = (present(an_outlook(LAST + timedelta(minutes=m)).seconds_left) for m in (0, 5))
    assert first.likely - later.likely == 300.0
    assert first.low < first.likely < first.high
    over = an_outlook(LAST, finished_at=(LAST + timedelta(minutes=1)).isoformat(), status="aborted")
    assert (over.running, over.in_flight, present(over.seconds_left).high) == ([], 0, 0.0)


def test_a_budgets_time_counts_from_the_time_of_asking_while_the_run_lives() -> None:
    assert an_outlook(LAST).budget is None
    then, later = (present(an_outlook(LAST + timedelta(minutes=m), 2.5).budget) for m in (0, 3))
    assert then.standing == later.standing == "will_pass"
    assert later.seconds_until == pytest.approx(present(then.seconds_until) - 180)
    assert present(an_outlook(LAST, 2.5, status="completed").budget).standing == "within"


def with_repeats(attempts: int, planned: int | None = None) -> list[AgentModelSummary]:
    """Agents of a run of 10 tasks: `a` passes as often as the task's number says, `b` the first half."""
    tasks = [f"t{n}" for n in range(10)]
    results = [
        a_trial(task_id=task, attempt=attempt, agent=agent, cost_usd=0.25)
        | {"resolved": (n + 3 * attempt) % 10 < n if agent == "a" else n < 5}
        for n, task in enumerate(tasks)
        for attempt in range(1, attempts + 1)
        for agent in "ab"
    ]
    return answers([a_plan(tasks=tasks, attempts=planned or attempts), *results]).agents


def test_the_parts_of_an_error_and_of_larger_runs_with_their_costs() -> None:
    agents = with_repeats(4)
    budgets = {one.agent_model: one for one in error_budgets(agents)}
    of_a, of_b = budgets["a:gpt-5"], budgets["b:gpt-5"]
    [uncertainty] = [present(one.uncertainty) for one in agents if one.agent == "a"]
    error, repeat = present(uncertainty.ability).standard_error, present(uncertainty.repeat).standard_error
    assert of_a.standard_error == error
    assert (of_a.repeats, of_a.tasks) == pytest.approx((repeat**2 / error**2, 1 - repeat**2 / error**2))
    attempts, tasks = present(of_a.more_attempts), of_a.more_tasks
    assert (attempts.trials, attempts.usd, tasks.trials, tasks.usd) == (10, 2.5, 80, 20.0)
    assert attempts.standard_error == pytest.approx(((error**2 - repeat**2) + repeat**2 * 4 / 5) ** 0.5)
    assert tasks.standard_error == pytest.approx(error / 3**0.5)
    assert (of_b.tasks, of_b.repeats) == (1.0, 0.0)
    assert of_b.words == (
        "b:gpt-5: standard error 16.7 points; 100 % of its variance is from the choice of tasks, 0 % from "
        "chance on each task. Estimate: one more attempt at each task makes it 16.7 points for $2.50, 20 "
        "more tasks 9.6 points for $20.00"
    )


def test_one_attempt_each_splits_no_error_and_is_not_said_unasked() -> None:
    """Nothing is said while results are missing, or without an error."""
    agents = with_repeats(1)
    passes = [a_trial(task_id=f"t{n}", attempt=k) for n in range(3) for k in (1, 2)]
    without = answers([a_plan(tasks=3, attempts=2), *passes]).agents
    assert error_budgets(agents, first=True) == error_budgets(with_repeats(3, planned=4)) == []
    assert error_budgets(without) == []
    for one in error_budgets(agents):
        assert (one.tasks, one.repeats, one.more_attempts) == (None, None, None)
        assert "once each task has two attempts. Estimate: 20 more tasks make it" in one.words


def test_what_the_infrastructure_took_stands_beside_the_error() -> None:
    slots = [{"task_id": f"t{n}", "attempt": k, "resolved": n > 1} for n in range(5) for k in (1, 2)]
    crashed = [slot | {"failure_mode": "infrastructure_error"} for slot in slots[:2]]
    results = [a_trial(**slot) for slot in crashed + slots[2:]]
    end = {"type": "run_finished", "run_id": "run-1"}
    [budget] = error_budgets(answers([a_plan(tasks=5, attempts=2), *results, end]).agents)
    assert budget.infrastructure == pytest.approx(6 / 8 - 6 / 10)
    assert "; without infrastructure failures the rate is 15.0 points higher. Estimate" in budget.words
    assert "$" not in budget.words, "no cost is known"


def test_a_run_says_it_of_the_first_agents() -> None:
    run, agents = answers([a_plan(tasks=3, attempts=1), a_trial()]).run, with_repeats(4)
    result = outlook_of(run, agents, [], None, AT)
    assert {one.agent_model for one in result.errors} == {"a:gpt-5", "b:gpt-5"}
    assert result.errors_note is None, "no judge has scored"
    judged = [agent.model_copy(update={"coverage": {"impl_rate": 4}}) for agent in agents]
    note = present(outlook_of(run, judged, [], None, AT).errors_note)
    assert note.endswith("; streamer query run run-1 --judge reads it there")
    baselines = [agent.model_copy(update={"baseline": True}) for agent in judged]
    assert outlook.judge_hint([*baselines, *agents], "run-1") is None


def a_pair(wins: int, losses: int, ties: int, pairs: int, better: float = 1.5) -> ComparedPair:
    known = wins + losses + ties
    ahead = "a" if wins > losses else "b" if losses > wins else None
    evidence = {"better": better, "worse": 1.0, "ahead": ahead}
    counts = {"a": 0, "b": 1, "pairs": pairs, "wins": wins, "ties": ties, "losses": losses}
    return ComparedPair(
        **counts, unknown=pairs - known, final=None, final_missing="order_chosen", evidence=evidence
    )


def test_pairs_go_on_as_they_came_until_evidence_of_forty() -> None:
    """Eight of ten discordant pairs of 40: evidence reaches 40 at 98 pairs, with 20 of 25."""
    assert pairs_to_decide(2, 8, 40, 1_000) == 98
    assert e_value(round(2 * 97 / 40), round(8 * 97 / 40)) < 40 <= e_value(5, 20)
    assert pairs_to_decide(2, 8, 40, 97) is None
    assert pairs_to_decide(8, 2, 40, 1_000) is None


def test_a_decision_has_its_share_of_the_time_and_cost_that_are_left() -> None:
    """58 of 400 pairs more: 58/400 of 100 dollars and of an hour."""
    said = present(decision_of(a_pair(8, 2, 30, 440), ("x:m", "y:m"), 3600.0, 100.0))
    assert (said.ahead, said.behind, said.pairs, said.pairs_left) == ("x:m", "y:m", 58, 400)
    assert (said.cost_usd, said.seconds) == (pytest.approx(14.5), pytest.approx(522.0))
    assert said.words == (
        "estimate: at this rate a difference of 15.0 points between x:m and y:m is decided after about "
        "58 more pairs, $14.50, 8.7 min"
    )
    turned = present(decision_of(a_pair(2, 8, 30, 440), ("x:m", "y:m"), None, None))
    assert turned.ahead == "y:m"
    assert turned.words.endswith("after about 58 more pairs")


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (a_pair(8, 2, 30, 60), "needs about 58 more pairs; this run has 20 left, so it will not decide"),
        (a_pair(5, 5, 30, 60), "nothing is decided between x:m and y:m, who are 0.0 points apart so far"),
        (a_pair(4, 2, 1, 60), None),
        (a_pair(8, 2, 30, 40), None),
        (a_pair(20, 2, 18, 60, better=40.0), None),
        (a_pair(8, 2, 30, 60, better=1.0), None),
    ],
)
def test_what_cannot_be_promised_is_said_or_left_out(pair: ComparedPair, said: str | None) -> None:
    """Too few pairs, none left, agents that are told apart, and pairs without evidence have no estimate."""
    result = decision_of(pair, ("x:m", "y:m"), None, 5.0)
    assert (result is None) == (said is None)
    if result is not None:
        assert result.words.endswith(present(said))
        assert (result.cost_usd, result.seconds) == (None, None)


def of_two(tasks: int, known: int, passed: dict[str, Container[int]], *end: Event, **plan: Any) -> RunAnswers:
    """So many known results of two agents, which pass the tasks of these numbers; `order`: all are listed."""
    names = [f"t{number:03}" for number in range(tasks)]
    order = {"order": names} if plan.pop("order", False) else {}
    trials = [
        a_trial(task_id=task, agent=agent, model="m", resolved=at in passed[agent], cost_usd=1.0)
        for at, task in enumerate(names[:known])
        for agent in "ab"
    ]
    return answers(
        [a_plan(tasks=names, attempts=1, agent_models=["a:m", "b:m"], **plan | order), *trials, *end]
    )


def seen(found: RunAnswers) -> outlook.Outlook:
    return outlook_of(found.run, found.agents, [], found.compared, AT)


def test_the_outlook_of_a_run_that_goes_on_ends_with_the_estimate() -> None:
    """Two agents at 10 of 40 tasks: one passes 6 that the other fails. Once the run is over there is none."""
    going_on, over = (
        seen(of_two(40, 10, {"a": range(6), "b": ()}, *end, order=True, order_kind="shuffled"))
        for end in ([], [{"type": "run_finished", "run_id": "run-1"}])
    )
    decision = present(going_on.decision)
    assert (decision.ahead, decision.difference, decision.pairs_left) == ("a:m", 0.6, 30)
    assert decision.cost_usd == pytest.approx(present(decision.pairs) / 30 * 60.0)
    assert going_on.first_two[-1] == decision.words
    assert over.decision is None
    assert not any("estimate" in said for said in over.first_two)


CHOSEN, LONGEST = {"order_kind": "chosen"}, {"order_kind": "chosen", "order_reason": "longest first"}
HISTORY = CHOSEN | {"order_reason": "history"}
NOT_A = [at for at in range(100) if at % 3]
WON, LOST = range(0, 80, 4), range(2, 98, 12)


@pytest.mark.parametrize(
    ("order", "known", "passed", "better", "is_estimated"),
    [
        # Of 98 known pairs 20 are won and 8 lost: with two open ones the whole plan has some evidence.
        ({}, 98, {"a": WON, "b": LOST}, True, False),
        (LONGEST, 98, {"a": WON, "b": LOST}, True, False),
        (LONGEST | {"order": True}, 98, {"a": WON, "b": LOST}, True, True),
        # One of a hundred tasks in three is lost. Only the whole plan has evidence, so pairs add nothing.
        *(
            (order, known, {"a": range(100), "b": NOT_A}, False, False)
            for known in (30, 80)
            for order in (
                {},
                {"order_kind": "shuffled"},
                HISTORY | {"order_history": ["earlier"]},
                CHOSEN | {"order": True},
                HISTORY | {"order": True, "order_history": ["run-1"]},
            )
        ),
    ],
)
def test_without_evidence_of_prefixes_no_end_is_estimated(
    order: Event, known: int, passed: dict[str, Container[int]], *, better: bool, is_estimated: bool
) -> None:
    found = of_two(100, known, passed, **order)
    [pair] = present(found.comparison).pairs
    evidence = present(pair.evidence)
    assert 1 <= evidence.better < 40
    assert (evidence.better > 1) is better
    said = seen(found)
    assert (said.decision is not None) is is_estimated
    assert any("estimate" in words for words in said.first_two) is is_estimated
