"""Two sides are compared on the tasks that both have done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from math import comb, sqrt
from random import Random
from statistics import mean, stdev
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.client.folded import answers_of
from streamer.client.queries import ComparedRun
from streamer.schemas.base import task_key
from streamer.schemas.summaries import Rank, RunComparison, RunSummary, TasksOfRun
from streamer.statistics.pairs import (
    Direction,
    Pair,
    Place,
    e_value,
    evidence_worse,
    is_behind,
    paired,
    places,
)
from streamer.views.decide.compare import (
    METHODS,
    STILL_OPEN,
    ComparedSide,
    between,
    compare_sides,
    comparison_document,
    pair_standings,
    worse_by,
)
from streamer.views.decide.outlook import comparison_tables
from streamer.views.models import Comparison, Ends, TrialRow
from streamer.views.tables import Table
from tests.support.board_runs import board_runs
from tests.support.builders import a_row, by_head, present
from tests.support.data import shared_data
from tests.support.events import Event, a_late_score, a_plan, a_start, a_trial, folded
from tests.support.examples import examples
from tests.support.rows import read_rows, terminal_bench_row_to_event

Names = tuple[tuple[str, str | None], tuple[str, str | None]]
PAIR: Names = (("r", None), ("r", "b:m"))


def of_rows(
    a: list[TrialRow], b: list[TrialRow], names: Names = PAIR, *, limit: int = 10, **state: Any
) -> Comparison:
    """Two sides of which these trials are all that there is."""
    sides = (side_with(rows, *name, **state) for rows, name in zip((a, b), names, strict=True))
    return compare_sides(*sides, 0, limit, ["tasks"])


def side_with(
    rows: list[TrialRow], run_id: str, label: str | None, *, ended: bool = False, readings: Any = None
) -> ComparedSide:
    [result] = board_runs([a_trial(run_id=run_id), ENDED | {"run_id": run_id}])
    trials = [row.model_copy(update={"agent_model": label or row.agent_model}) for row in rows]
    tasks: dict[str, dict[str, tuple[int, int, int]]] = {}
    for row in trials:
        task = tasks.setdefault(task_key(row.tier, row.subtest, row.task_id), {})
        known, passed, _ = task.get(row.agent_model, (0, 0, 0))
        task[row.agent_model] = known + 1, passed + (row.success is True), 0
    progress = result.run.progress.model_copy(update={"plan_complete": False})
    state = {"progress": progress, "status": "completed" if ended else None, "metrics": readings or {}}
    run = result.run.model_copy(update=state)
    names = {row.agent_model for row in trials}
    agents = [result.agents[0].model_copy(update={"agent_model": name}) for name in names]
    return ComparedSide(ComparedRun(run, None, tasks), agents, label, trials)


ENDED = {"type": "run_finished", "run_id": "run-1"}


def test_sides_are_compared_on_the_tasks_of_the_tiers_that_both_have_done() -> None:
    of_x = {"task_id": "x", "tier": "T0"}
    first = [
        a_row(**of_x, cost_usd=1.0),
        a_row(**of_x, attempt=2, success=False, cost_usd=3.0),
        a_row(task_id="y", tier="T0", cost_usd=9.0),
        a_row(task_id="z", tier="T0"),
    ]
    second = [
        a_row(**of_x, cost_usd=1.0),
        a_row(task_id="y", tier="T1"),
        a_row(task_id="z", tier="T0", success=False, cost_usd=5.0),
        a_row(task_id="w", tier="T0"),
    ]
    result = of_rows(first, second)
    assert (result.tasks, result.a_better, result.b_better, result.equal) == (2, 1, 1, 0)
    assert (result.a.only_here, result.b.only_here, result.a.trials, result.b.trials) == (1, 2, 3, 2)
    rates = [(pair.task_id, pair.a.pass_rate, pair.b.pass_rate) for pair in result.pairs]
    assert rates == [("z", 1.0, 0.0), ("x", 0.5, 1.0)]
    assert (result.a.pass_rate, result.b.pass_rate) == (0.75, 0.5)  # means of (1, 1/2) and (0, 1)
    assert (result.a.cost_usd, result.b.cost_usd) == (2.0, 1.0)  # of x alone: z has no known cost on one side


def test_a_task_is_passed_by_a_side_that_succeeds_in_more_than_half_of_its_trials() -> None:
    halves = [a_row(task_id="x", success=True), a_row(task_id="x", success=False, attempt=2)]
    both = of_rows([a_row(task_id="x")], [*halves, a_row(task_id="x", attempt=3)])
    assert (both.both_passed, both.only_a, both.only_b, both.neither) == (1, 0, 0, 0)
    half = of_rows([a_row(task_id="x")], halves)
    assert (half.both_passed, half.only_a, half.only_b, half.neither) == (0, 1, 0, 0)


def test_a_difference_is_over_the_tasks_where_both_know_the_metric_and_knows_what_is_better() -> None:
    first = [a_row(task_id=f"t{n}", cost_usd=1.0, task_speedup=2.0) for n in range(4)]
    second = [a_row(task_id=f"t{n}", cost_usd=1.5, success=n > 0) for n in range(4)]
    second[3] = a_row(task_id="t3", cost_usd=0.5, task_speedup=1.5)
    result = of_rows(first, second).differences
    cost, speedup, passes = result["cost_usd"], result["task_speedup"], result["pass_rate"]
    assert (cost.tasks, cost.mean, cost.a_better, cost.b_better) == (4, 0.25, 3, 1)
    assert (speedup.tasks, speedup.mean, speedup.a_better, speedup.p_value) == (1, -0.5, 1, None)
    assert (passes.mean, passes.a_better, passes.b_better, passes.equal) == (-0.25, 1, 0, 3)
    assert (worse_by(cost), worse_by(speedup), worse_by(passes)) == (0.25, 0.5, 0.25)
    assert worse_by(result["agent_advantage"]) is None


def test_the_sign_test_takes_the_attempts_that_both_sides_have() -> None:
    """Eight tasks with one trial against two, and six with one trial each: fourteen losses."""
    names = [f"t{n}" for n in range(14)]
    first = [a_row(task_id=name) for name in names]
    second = [a_row(task_id=name, success=False) for name in names]
    second += [a_row(task_id=name, attempt=2) for name in names[6:]]
    ended = of_rows(first, second, ended=True).differences
    passes = ended["pass_rate"]
    assert (passes.tasks, passes.a_better, passes.p_value) == (14, 14, 2 / 2**14)
    assert passes.mean == 8 / 22 - 1, "all trials are in the mean"
    assert ended["task_speedup"].p_value is None, "nothing was tested"
    assert of_rows(first, first, ended=True).differences["pass_rate"].p_value == 1.0
    running = of_rows(first, second).differences["pass_rate"]
    assert (running.p_value, running.interval) == (None, None)


def test_at_the_end_each_metric_has_the_t_interval_of_its_paired_differences() -> None:
    """Differences -0.5 and 1.5, five of each: mean 0.5, standard error sqrt(10/9/10), t(9) = 2.262157."""
    first = [a_row(task_id=f"t{n}", cost_usd=1.0) for n in range(10)]
    second = [a_row(task_id=f"t{n}", cost_usd=0.5 + 2 * (n % 2)) for n in range(10)]
    running = of_rows(first, second)
    assert (running.ended, running.differences["cost_usd"].interval) == (False, None)
    ended = of_rows(first, second, ended=True)
    interval, half = ends_of(ended, "cost_usd"), 2.262157 * (1 / 9) ** 0.5
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert ended.differences["task_speedup"].interval is None
    few = of_rows(first[:9], second, ended=True)
    assert few.differences["cost_usd"].interval is None, "fewer than ten tasks"
    assert ends_of(few)
    assert of_rows(first[:4], second, ended=True).differences["pass_rate"].interval is None


def test_named_metrics_are_compared_where_both_sides_know_them() -> None:
    first = [a_row(task_id=f"t{n}", metrics={"wait": 2.0, "mine": 1.0}) for n in range(2)]
    second = [a_row(task_id="t0", metrics={"wait": 5.0, "yours": 1.0}), a_row(task_id="t1")]
    readings = {"wait": {"direction": "lower", "unit": "seconds", "label": "Wait"}}
    result = of_rows(first, second, readings=readings)
    wait = result.differences["metrics/wait"]
    assert (wait.tasks, wait.mean, wait.a_better, wait.unit, wait.label) == (1, 3.0, 1, "seconds", "Wait")
    assert worse_by(wait) == 3.0
    assert (result.a.metrics, result.b.metrics) == ({"wait": 2.0}, {"wait": 5.0})
    assert not {"metrics/mine", "metrics/yours"} & result.differences.keys()
    unread = of_rows(first, second).differences["metrics/wait"]
    assert (unread.higher_is_better, unread.unit) == (True, None)


@pytest.mark.parametrize(
    ("planned", "events", "label", "ended"),
    [
        (True, [a_trial(task_id="t0"), a_trial(task_id="t1")], None, True),
        (True, [a_trial(task_id="t0"), a_trial(task_id="t1")], "terminus:gpt-5", True),
        (True, [a_trial(task_id="t0"), a_trial(task_id="t1")], "other:m", False),
        (True, [a_trial(task_id="t0")], None, False),
        (True, [a_trial(task_id="t0"), ENDED], None, True),
        (True, [a_trial(task_id="t0"), a_trial(task_id="t1", resolved=None)], None, False),
        # Without a plan a side is complete as it stands.
        (False, [a_trial()], None, True),
        (False, [a_trial(), a_start(task_id="in flight")], None, False),
        (False, [a_trial(), a_start(task_id="in flight"), ENDED], None, True),
    ],
)
def test_a_side_has_ended_once_no_trial_of_it_is_missing(
    planned: bool, events: list[Event], label: str | None, ended: bool
) -> None:
    plan = [a_plan(tasks=2, attempts=1)] if planned else []
    side = a_side("run-1", plan + events)
    assert replace(side, agent_model=label).ended is ended


def test_a_side_of_all_agents_waits_for_a_planned_one_that_has_not_begun() -> None:
    plan = a_plan(tasks=2, attempts=1, agent_models=["first:m", "terminus:gpt-5"])
    events = [plan, a_trial(task_id="t0"), a_trial(task_id="t1", resolved=False)]
    side, over = a_side("run-1", events), a_side("run-1", [*events, ENDED])
    assert (side.ended, replace(side, agent_model="terminus:gpt-5").ended, over.ended) == (False, True, True)
    assert over.outcomes.tasks == {"t0": (1, 1, 1), "t1": (1, 0, 1)}


@pytest.mark.parametrize("end", [[], [ENDED]], ids=["no end", "an end"])
def test_r26_the_ten_trials_that_a_tier_expects_are_no_plan(end: list[Event]) -> None:
    """Twelve results of two tiers were "8 of 20 tasks lack verdicts", and p was 1."""
    sides = []
    for passed in (12, 4):
        slots = [{"task_id": f"t{n % 6}", "tier": f"T{n // 6}", "resolved": n < passed} for n in range(12)]
        events = [*(a_trial(**slot) for slot in slots), *end]
        sides.append(a_side(f"r{passed}", [event | {"run_id": f"r{passed}"} for event in events]))
    result = compare_sides(*sides, 0, 0)
    assert (result.ended, result.differences["pass_rate"].p_value) == (True, 2 / 2**8)
    assert not [said for said in result.words if "lack" in said or "missing" in said]


def test_r4_a_baseline_that_is_named_is_compared_at_its_own_tasks() -> None:
    """It was "the sides ran different tasks", because a run's comparison leaves baselines out."""
    trials = [
        a_trial(task_id=f"t{n}", agent=a, resolved=n > 2 or a == "nop") for n in range(6) for a in AGENTS
    ]
    side = a_side("run-1", [*trials, ENDED])
    result = compare_sides(*(replace(side, agent_model=f"{agent}:gpt-5") for agent in AGENTS), 0, 0)
    assert (result.not_comparable, result.differences["pass_rate"].mean) == (None, 0.5)
    assert ends_of(result).low < 0.5 < ends_of(result).high


AGENTS = "terminus", "nop"


def ended_side(
    run: str, trials: Iterable[Event], *, scores_pending: bool | None = None, **plan: Any
) -> ComparedSide:
    """A side whose run has ended with these trials."""
    events = [a_plan(**plan), *trials, ENDED | {"revision": 99, "scores_pending": scores_pending}]
    return a_side(run, [event | {"run_id": run} for event in events])


def two_sides(
    a: str, b: str, *, planned: tuple[Any, Any], attempts: tuple[int, int] = (1, 1), **fields: Any
) -> Comparison:
    """Run r on 1 January and run s on 2 January: `+` passed, `-` failed, `?` without a verdict."""
    sides = []
    for run, letters, tasks, many, day in zip("rs", (a, b), planned, attempts, (1, 2), strict=True):
        passed = [{"+": True, "-": False}.get(letter) for letter in letters]
        trials = [
            a_trial(task_id=f"t{n // many:02}", attempt=1 + n % many, resolved=of, cost_usd=0.25 * day)
            for n, of in enumerate(passed)
        ]
        plan: dict[str, Any] = {"tasks": tasks, "attempts": many, "started_at": f"2026-01-0{day}T00:00:00Z"}
        sides.append(ended_side(run, trials, **plan))
    return compare_sides(*sides, 0, 10, **fields)


def test_unequal_attempts_are_compared() -> None:
    """47 of 80 against 77 of 400 said "Nothing separates" once."""
    result = two_sides("+" * 47 + "-" * 33, "+----" * 77 + "-" * 15, planned=(80, 80), attempts=(1, 5))
    passes = result.differences["pass_rate"]
    assert (result.a.pass_rate, result.b.pass_rate) == (47 / 80, 77 / 400)
    assert passes.mean == 77 / 400 - 47 / 80
    [metrics, *_] = comparison_document(result).tables
    assert "Pass rates are over all trials of the common tasks" in metrics.note
    assert ends_of(result).high < -0.25
    assert passes.p_value is not None
    assert passes.p_value < 0.001


def ends_of(result: Comparison, metric: str = "pass_rate") -> Ends:
    return present(result.differences[metric].interval)


def test_a_missing_verdict_touches_one_pair_and_one_metric() -> None:
    before, after = (ends_of(two_sides("+-" * 20, b, planned=(40, 40))) for b in ("+-" * 20, "+-" * 19 + "+"))
    assert after.low <= before.low < 0 < before.high < after.high
    assert after.high - after.low < before.high - before.low + 0.06
    assert ends_of(two_sides("+-" * 20, "+-" * 19 + "+?", planned=(40, 40)), "cost_usd")


def test_different_tasks_are_judged_only_where_one_side_planned_the_common_ones_before() -> None:
    subset_first = two_sides("+" * 10, "-" * 20, planned=(10, 20))
    assert subset_first.not_comparable is None
    assert ends_of(subset_first)
    assert subset_first.words[-1] == (
        "10 tasks in common: A passes 100.0 % of these and 100.0 % of all its 10; B passes 0.0 % of these "
        "and 0.0 % of all its 20"
    )
    subset_later = two_sides("-" * 20, "+" * 10, planned=(20, 10))
    passes = subset_later.differences["pass_rate"]
    assert subset_later.not_comparable is not None
    assert (passes.mean, passes.interval, passes.p_value) == (1.0, None, None)
    assert subset_later.words[0] == f"not comparable: {subset_later.not_comparable}"
    assert ends_of(two_sides("-" * 20, "+" * 10, planned=(20, 10), allowed=["tasks"]))


def test_a_side_without_results_ran_no_other_tasks() -> None:
    """Of a run that had just begun, or was archived, it was "the sides ran different tasks"."""
    result = compare_sides(ended_side("r", trials_of(2)), ended_side("s", []), 0, 0)
    [said] = result.words
    assert (result.not_comparable, result.refused) == (None, [])
    assert said.endswith(
        "A passes – of these and 100.0 % of all its 2; B passes – of these and – of all its 0"
    )


def test_agents_of_a_run_that_counts_as_complete_have_the_words_of_the_end() -> None:
    """It was "Nothing separates a:m and b:m yet" above p = 0.00195."""
    trials = [
        trial for agent in "ab" for trial in trials_of(10, agent=agent, model="m", resolved=agent == "a")
    ]
    side = a_side("run-1", trials)
    words = compare_sides(*(replace(side, agent_model=f"{agent}:m") for agent in "ab"), 0, 0).words
    assert words[0] == "a:m ahead on tasks like these: sign test p = 0.00195"
    assert words[1].startswith("b:m minus a:m: -100.0 points [-100.0, -")


def test_tasks_that_one_side_has_not_reached_are_no_other_tasks() -> None:
    short, full = (two_sides("+" * 12, "-" * known, planned=(12, 12)) for known in (8, 12))
    assert short.not_comparable is None
    assert ends_of(short).low == ends_of(full).low < ends_of(full).high < ends_of(short).high


LACKING = "1 of 12 tasks lack verdicts: the interval and p for pass rates count these both ways"
MISSING = "planned trials are missing: means other than the pass rate have no interval"


@pytest.mark.parametrize(
    ("a", "b", "attempts"),
    [("+" * 12, "+" * 11, (1, 1)), ("+" * 24, "-" * 23, (2, 2))],
    ids=["a task never came", "another trial of the task decides it"],
)
def test_a_task_that_lacks_a_verdict_is_counted_and_other_means_have_no_interval(
    a: str, b: str, attempts: tuple[int, int]
) -> None:
    """Of two such tasks one was counted, or none: the interval takes each missing trial both ways."""
    result = two_sides(a, b, planned=(12, 12), attempts=attempts)
    assert result.differences["cost_usd"].interval is None
    assert result.words[-2:] == [LACKING, MISSING]


@pytest.mark.parametrize("fields", [{}, {"resolved": None, "metrics": {"x": 1.0}}])
def test_r31_trials_that_one_of_several_agents_lacks_are_at_no_other_tasks(fields: dict[str, Any]) -> None:
    """ "Not comparable: the sides ran different tasks", of 12 and "all its 13": one trial never came."""
    trials = [a_trial(task_id=f"t{n:02}", agent=a, model="m", **fields) for a in "ab" for n in range(12)]
    plan: dict[str, Any] = {"tasks": 12, "attempts": 1, "agent_models": ["a:m", "b:m"]}
    result = compare_sides(ended_side("r", trials, **plan), ended_side("s", trials[1:], **plan), 0, 20)
    assert (result.not_comparable, result.ended, result.words[-1]) == (None, True, MISSING)
    if fields:
        assert result.differences["pass_rate"].interval is None
    else:
        assert ends_of(result).low < 0 < ends_of(result).high


def trials_of(many: int, **fields: Any) -> list[Event]:
    """So many trials; `fields` of all of them."""
    return [a_trial(task_id=f"t{n:02}", **fields) for n in range(many)]


def test_a_task_with_a_number_in_place_of_a_verdict_is_counted_apart_and_not_listed() -> None:
    """It said "and -1 more (--limit)", and that other means have no interval (R31)."""
    first, second = trials_of(12, cost_usd=1.0), trials_of(12, cost_usd=1.0)
    first[0] |= {"resolved": None, "metrics": {"x": 1.0}}
    second[1] |= {"resolved": False}
    result = compare_sides(ended_side("r", first, **TWELVE), ended_side("s", second, **TWELVE), 0, 20)
    assert "by both 10, by A alone 1, by B alone 0, by neither 0, without a verdict 1; " in result.in_common
    rates = [table for table in comparison_document(result).tables if "rates" in table.title]
    assert [(len(table.rows), table.note) for table in rates] == [(1, "")]
    assert result.words[-1] == LACKING
    assert ends_of(result, "cost_usd")


TWELVE: dict[str, Any] = {"tasks": 12, "attempts": 1}


@pytest.mark.parametrize("attempts", [(1, 1), (2, 1)])
def test_a_trial_that_waits_for_its_verdict_is_neither_passed_nor_failed(attempts: tuple[int, int]) -> None:
    """It was failed: "passed by A alone 3", beside a difference of 0 points (R31, inference 3)."""
    sides = []
    for run, many, unscored in zip("rs", attempts, (0, 3), strict=True):
        slots = [{"task_id": f"t{n:02}", "attempt": 1 + k} for n in range(12) for k in range(many)]
        trials = [a_trial(**slot, resolved=None) for slot in slots]
        trials += [a_late_score(**slot, resolved=True) for slot in slots[unscored:]]
        plan: dict[str, Any] = {"tasks": 12, "attempts": many, "verdicts": True}
        sides.append(ended_side(run, trials, scores_pending=True, **plan))
    result = compare_sides(*sides, 0, 20)
    assert "by both 9, by A alone 0, by B alone 0, by neither 0, without a verdict 3; " in result.in_common
    passes = result.differences["pass_rate"]
    assert (passes.tasks, passes.a_better, passes.equal, passes.mean, passes.p_value) == (9, 0, 9, 0.0, 1.0)
    assert (result.flips, result.only_a_tasks) == ([], [])


@pytest.mark.parametrize(("agents", "is_planned"), [("ab", True), ("b", False)])
def test_trials_with_numbers_alone_are_at_their_own_tasks(agents: str, is_planned: bool) -> None:
    """Five of agent b's twelve were three more tasks: not comparable, "of all its 15" tasks (R31)."""
    first = [one | {"run_id": "r"} for agent in agents for one in trials_of(12, agent=agent)]
    for one in first[-5:]:
        one |= {"resolved": None, "metrics": {"x": 1.0}}
    plans = [a_plan(run_id="r", **TWELVE, agent_models=["a:m", "b:m"])] if is_planned else []
    end = ENDED | {"run_id": "r", "revision": 99}
    other = ended_side("s", trials_of(12), **TWELVE)
    result = compare_sides(a_side("r", [*plans, *first, end]), other, 0, 20)
    assert (result.not_comparable, result.tasks, result.a.pass_rate) == (None, 12, 1.0)
    assert ends_of(result).low < 0 < ends_of(result).high


def test_of_numbers_alone_nothing_is_said_of_pass_rates() -> None:
    numbers = (trials_of(12, resolved=None, metrics={"x": at}) for at in (0, 1))
    sides = (ended_side(run, trials, **TWELVE) for run, trials in zip("rs", numbers, strict=True))
    result = compare_sides(*sides, 0, 20)
    assert result.in_common == "12 tasks in common, without verdicts to compare; only in A 0, only in B 0"
    assert result.words == []
    assert ends_of(result, "metrics/x")


def test_r30_plans_that_read_a_metric_in_different_ways_are_named() -> None:
    """A was worse than B, and B worse than A; 5 s were compared with 5,000 ms."""

    def between(direction: str, unit: str) -> Comparison:
        readings = {"direction": "lower", "unit": "s"}, {"direction": direction, "unit": unit}
        trials = trials_of(12, metrics={"x": 1.0})
        sides = (
            ended_side(run, trials, **TWELVE, metrics={"x": of})
            for run, of in zip("rs", readings, strict=True)
        )
        return compare_sides(*sides, 0, 20)

    opposite, two_units = between("higher", "s"), between("lower", "ms")
    assert "metrics/x: lower is better in A's plan, higher in B's; judged as in A's" in opposite.words
    assert not opposite.differences["metrics/x"].higher_is_better
    assert "metrics/x has two units: s against ms" in two_units.words
    assert "metrics/x" not in two_units.differences


def test_a_run_without_a_plan_counts_as_complete_once_nothing_is_in_flight() -> None:
    said = [
        compare_sides(a_side("r", [a_trial(run_id="r")]), a_side("s", [a_trial(run_id="s"), *more]), 0, 9)
        for more in ([], [a_start(run_id="s", task_id="in flight")])
    ]
    complete = [f"{run} has no plan and no end: it counts as complete" for run in "rs"]
    counted = [[words for words in one.words if words.endswith("counts as complete")] for one in said]
    assert counted == [complete, complete[:1]]
    assert [one.ended for one in said] == [True, False]


OPENHANDS = "terminal-bench-core@0.1.1/20250711_openhands_claude-4-sonnet/openhands-sonnet2"
CURSOR = "terminal-bench-core@0.1.1/20250811_cursor-cli_claude-4-sonnet/run1_2025-08-10__05-27-18"
STUDENT_T_79 = 1.990450
"""Quantile .975 of Student's t with 79 degrees of freedom."""


def submission(path: str) -> dict[str, dict[str, Any]]:
    """The rows of one run, by task; a trial without a verdict has failed for good here."""
    rows = read_rows(shared_data() / "terminal_bench" / "trials.jsonl.gz")
    expected = (row for row in rows if row["run_path"] == path)
    return {row["task_id"]: row | {"is_resolved": row["is_resolved"] is True} for row in expected}


def a_side(run_id: str, events: Iterable[Event]) -> ComparedSide:
    run = folded(events)[0].run(run_id)
    answers, scored = answers_of(run), run.take_changes().scored
    rows = [TrialRow.of("", orjson.loads(trial.value or b"")) for trial in scored]
    return ComparedSide(answers.compared, answers.agents, None, rows)


def side_of(path: str, rows: dict[str, dict[str, Any]], planned: int) -> ComparedSide:
    events = [terminal_bench_row_to_event(row, path) for row in rows.values()]
    return a_side(path, [a_plan(run_id=path, tasks=planned, attempts=1), *events])


def test_public_submissions_compare_to_what_a_count_of_their_rows_gives() -> None:
    ours, theirs = submission(OPENHANDS), submission(CURSOR)
    assert len(ours) == len(theirs) == 80
    result = compare_sides(side_of(OPENHANDS, ours, 80), side_of(CURSOR, theirs, 80), 0, 100)
    moved = [theirs[task]["is_resolved"] - ours[task]["is_resolved"] for task in ours]
    lost, won = moved.count(-1), moved.count(1)
    assert (result.ended, result.only_a, result.only_b, result.tasks) == (True, lost, won, 80)
    assert sum(group.count for group in result.flips) == lost + won
    passes, interval = result.differences["pass_rate"], ends_of(result)
    tail = sum(comb(lost + won, k) for k in range(min(lost, won) + 1))
    p_value = present(passes.p_value)
    assert p_value == pytest.approx(min(1.0, 2 * tail / 2 ** (lost + won)))
    assert passes.mean == pytest.approx(mean(moved))
    half = STUDENT_T_79 * stdev(moved) / sqrt(80)
    near = pytest.approx((mean(moved) - half, mean(moved) + half), abs=0.02)
    assert (interval.low, interval.high) == near, "Newcombe's interval is near that of t, far from 0 and 1"
    assert p_value < 0.05
    assert result.words[0].startswith("cursor-cli:" if won > lost else "openhands:")
    assert f"sign test p = {p_value:.3g}" in result.words[0]


NAMES = (("r", "a:m"), ("s", None))


def tables(*, ended: bool, limit: int = 20) -> list[Table]:
    a = [a_row(task_id=f"t{n:02}", cost_usd=1.0, metrics={"wait": 1.0 + n}) for n in range(11)]
    failed = {"cost_usd": 1.5, "success": False, "failure_mode": "timeout"}
    b = [a_row(task_id=f"t{n:02}", metrics={"wait": 2.0 + n}, **failed) for n in range(10)]
    readings = {"wait": {"unit": "seconds", "direction": "lower", "label": "Wait\u202e"}}
    result = of_rows(a, b, NAMES, limit=limit, ended=ended, readings=readings)
    return list(comparison_document(result).tables)


def test_each_metric_has_a_row_in_its_own_unit_and_the_note_says_whether_intervals_hold() -> None:
    over, running = (tables(ended=ended)[0] for ended in (True, False))
    metrics = by_head(over)
    assert [(row["mean over tasks"], row["A"], row["B"], row["B - A"], row["95 %"]) for row in metrics] == [
        ("pass_rate", "100.0 %", "0.0 %", "-100.0 points", "[-100.0, -52.1]"),
        ("cost_usd", "$1.0000", "$1.5000", "+$0.5000", "[$0.5000, $0.5000]"),
        ("Wait\\u202e", "5.5 s", "6.5 s", "+1 s", "[1 s, 1 s]"),
    ]
    assert [row["A better"] for row in metrics] == ["10", "10", "10"]
    assert (over.note, running.note, "95 %" in running.heads) == (METHODS, STILL_OPEN, False)


def test_lists_end_with_how_many_more_there_are() -> None:
    _, flips, pairs, not_common = tables(ended=True, limit=1)
    flip = {"passed by": "A alone", "the other's failure": "timeout", "tasks": "10"}
    assert by_head(flips) == [flip | {"which": "t00, and 9 more (--limit)"}]
    assert (len(pairs.rows), pairs.note) == (1, "and 9 more (--limit)")
    assert by_head(not_common) == [{"only in": "A", "tasks": "1", "which": "t10"}]
    assert comparison_document(of_rows([a_row()], [a_row()], NAMES, limit=1)).facts == [
        "A  r: a:m, 1 trial of the common tasks",
        "B  s: all but baselines, 1 trial of the common tasks",
    ]


TASKS = [f"t{number:02}" for number in range(20)]


def compared(events: list[Event]) -> ComparedRun:
    run = folded(events)[0].run("run-1")
    stored = {change.kind: change.value or b"" for change in run.summaries()}
    of_pairs = stored.get("comparison")
    comparison = None if of_pairs is None else RunComparison.model_validate_json(of_pairs)
    tasks = TasksOfRun.of(run.comparisons.tasks().items())
    return ComparedRun(RunSummary.model_validate_json(stored["run"]), comparison, *tasks)


def the_pair(events: list[Event]) -> Any:
    """The standing of the one pair; a test that reads a missing part fails."""
    [pair] = pair_standings(compared(events))
    json.loads(pair.model_dump_json())
    return pair


def trials(passed: dict[str, str], tasks: Iterable[str] = TASKS) -> list[dict[str, Any]]:
    """One trial of each agent for each letter: `+` passed, `-` did not, `.` is not in yet."""
    listed = list(tasks)
    return [
        a_trial(task_id=task, agent=agent, model="m", resolved=letter == "+", score=None)
        for agent, letters in passed.items()
        for task, letter in zip(listed, letters, strict=False)
        if letter != "."
    ]


def plan(tasks: list[str] = TASKS, **fields: Any) -> dict[str, Any]:
    shuffled = {"order": tasks, "order_kind": "shuffled", "judged": False}
    return a_plan(tasks=tasks, **{"attempts": 1} | shuffled | fields)


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("slow", "tasks", "said"),
    [
        (2, 18, "2 common tasks left out, made in different ways"),
        (11, 0, "not comparable: only 9 of 20 common tasks agree in timeout"),
    ],
)
def test_two_agents_of_a_run_say_what_their_pair_leaves_out(
    slow: int, tasks: int, said: str, ended: bool
) -> None:
    """Inference 10, of the pairs of a run's own comparison."""
    events = [plan(provenance={"timeout": "600"}), *trials({"a": "+" * 20, "b": "-" * 20})]
    for event in events[-20 : slow - 20]:
        event["provenance"] = {"timeout": "900"}
    pair = the_pair(events if ended else events[:-3])
    assert said in pair.words
    assert pair.tasks == tasks
    assert ("tasks like these" in "; ".join(pair.words)) == bool(tasks)


@pytest.mark.parametrize(("best", "other"), ["ab", "ba"])
def test_a_running_shuffled_run_has_its_final_difference(best: str, other: str) -> None:
    pair = the_pair([plan(), *trials({best: "+" * 15, other: "-" * 15})])
    counts = (pair.ahead, pair.behind) if best == "a" else (pair.behind, pair.ahead)
    assert (*counts, pair.open, pair.ended) == (15, 0, 5, False)
    assert pair.final is not None
    assert (pair.reachable.low if best == "a" else -pair.reachable.high) == pytest.approx(0.5)
    assert pair.words[0] == f"{best}:m can no longer be overtaken by {other}:m, unless results are corrected"
    assert pair.words[1].startswith(f"{best}:m ahead in this run's final pass rate: +100.0 points so far, [")
    assert pair.words[1].endswith("] in the end; 95 %, however often you look")
    assert (pair.interval, pair.p_value) == (None, None)


def test_of_a_run_that_ended_short_nothing_is_so_far_and_nothing_comes_yet() -> None:
    ended = ENDED | {"status": "cancelled"}
    said = the_pair([plan(), *trials({"a": "+" * 15, "b": "-" * 15}), ended]).words[1]
    assert said.startswith("a:m ahead in this run's final pass rate: +100.0 points in the results so far, [")
    assert said.endswith("] if all had arrived; 95 %, however often you look")
    few = the_pair([plan(), *trials({"a": "+-" * 3, "b": "+-" * 3}), ended])
    assert not any(" yet" in said for said in few.words), few.words


def test_an_order_of_unknown_kind_claims_nothing_about_this_run() -> None:
    """Inference 5: no `final`, but evidence, which needs no shuffle. A chosen one has neither."""
    nine = trials({"a": "+" * 9, "b": "-" * 9})
    pair = the_pair([plan(order_kind=None), *nine])
    assert (pair.final, pair.counts.final_missing) == (None, "order_undeclared")
    assert pair.words == [
        "a:m better than b:m on tasks like these: evidence 102, 40 needed; 95 %, however often you look"
    ]
    for events in ([plan(order_kind="chosen"), *nine], [plan(), *trials({"a": "+-+-", "b": "+-+-"})]):
        assert the_pair(events).words == ["Nothing separates a:m and b:m yet"]


def test_at_the_end_the_interval_is_about_tasks_like_these() -> None:
    pair = the_pair([plan(), *trials({"a": "+-" * 10, "b": "-" * 20})])
    assert (pair.ended, pair.p_value) == (True, pytest.approx(2 / 2**10))
    assert pair.words[0] == "a:m ahead on tasks like these: sign test p = 0.00195"
    assert pair.words[1].startswith("a:m minus b:m: +50.0 points [21.9, 71.6]; 95 %")


def test_across_runs_it_is_said_that_nothing_separates_them_on_tasks_like_these() -> None:
    """The numbers of one run may be decided all the same: other sentences say so."""
    ours = compared([plan(), *trials({"a": "+-+-"})])
    theirs = replace(ours, run=ours.run.model_copy(update={"run_id": "run-2"}))
    [words] = between(ours, theirs, None, None, paired([], complete=False))
    assert words == "Nothing separates a:m of run-1 and a:m of run-2 on tasks like these yet"


def test_a_sentence_has_the_evidence_of_the_prefix_that_shows_most() -> None:
    """Of 40 pairs 24 are in: 23 to 1. The open ones, counted against a, hide that (inference 7)."""
    tasks = [f"t{number:02}" for number in range(40)]
    one_lost = "+++++-" + "+" * 18
    other = one_lost.translate(str.maketrans("+-", "-+"))
    pair = the_pair([plan(tasks), *trials({"a": one_lost, "b": other}, tasks)])
    assert (pair.better, pair.worse) == (e_value(1, 23), 1.0)
    assert pair.words[-1] == (
        "a:m better than b:m on tasks like these: evidence 5.59e+04, 40 needed; 95 %, however often you look"
    )
    assert e_value(1 + 16, 23) < 1


def told_apart(ranks: Mapping[str, Rank | Place | None], one: str, other: str) -> bool:
    first, second = ranks[one], ranks[other]
    return first is not None and second is not None and first.worst < second.best


def shown_by(evidence: Mapping[Direction, float]) -> Callable[[Fraction], list[Direction]]:
    return lambda level: [pair for pair, value in evidence.items() if Fraction(value) * level >= 1]


@examples(40)
@given(st.integers(0, 2**32), st.sampled_from([1, 3]), st.sampled_from([8, 40]))
def test_a_sentence_and_the_ranks_never_contradict_each_other(seed: int, rounds: int, at_once: int) -> None:
    """Three agents share one queue of rounds; the last trials that started are in only in part (inference 7).

    At one level the evidence puts two agents apart where the sentence says so. The published ranks ask for
    more, so they never do without a sentence.
    """
    choice = Random(seed)
    tasks = [f"t{number:02}" for number in range(30)]
    order = [(task, number + 1) for number in range(rounds) for task in choice.sample(tasks, 30)]
    rates = {agent: choice.choice([0.05, 0.5, 0.95]) for agent in "abc"}
    passed = {(agent, *trial): choice.random() < rates[agent] for trial in order for agent in "abc"}
    started = list(passed)[: choice.randrange(3, len(passed))]
    done = {
        key: passed[key]
        for at, key in enumerate(started)
        if at < len(started) - at_once or choice.random() < 0.5
    }
    declared = {"attempts": rounds, "order": order, "agent_models": ["a:m", "b:m", "c:m"]}
    events = [plan(tasks, **declared)] + [
        a_trial(task_id=task, attempt=number, agent=agent, model="m", resolved=one, score=None)
        for (agent, task, number), one in done.items()
    ]
    run = compared(events)
    for pair in pair_standings(run):
        sides = {
            (one, other): [Pair(*(done.get((side[0], *trial)) for side in (one, other))) for trial in order]
            for one, other in permutations((pair.a, pair.b))
        }
        evidence = {
            names: evidence_worse(pairs, len(order))
            for names, pairs in sides.items()
            if is_behind(pairs, pairs, len(order))
        }
        at_level = places((pair.a, pair.b), shown_by(evidence))
        published = {agent.agent_model: agent.rank for agent in run.comparison.agents}
        for one, other in permutations((pair.a, pair.b)):
            says = any(said.startswith(f"{one} better than {other} on tasks") for said in pair.words)
            assert says is told_apart(at_level, one, other)
            if told_apart(published, one, other):
                assert says or pair.words[0].startswith(f"{one} ahead of {other} among all agents")


def test_places_may_tell_two_agents_apart_whose_own_pairs_do_not() -> None:
    """b has run the first 12 tasks, a the other 48. Both x and y have lost to b there, and beat a here."""
    tasks = [f"t{number:02}" for number in range(60)]
    outcomes = {"b": "+" * 12, "x": "-" * 12 + "+" * 48, "y": "-" * 12 + "+" * 48, "a": "." * 12 + "-" * 48}
    [pair] = pair_standings(compared([plan(tasks), *trials(outcomes, tasks)]), ["a:m", "b:m"])
    assert (pair.better, pair.worse) == (1.0, 1.0)
    assert pair.words == [
        "b:m ahead of a:m among all agents: place 1-2 against 3-4; 95 %, all agents at once"
    ]


def test_a_comparison_that_an_earlier_version_published_claims_no_evidence() -> None:
    run = compared([plan(), *trials({"a": "+" * 15, "b": "-" * 15})])
    stored = present(run.comparison).model_dump(mode="json")
    for pair in stored["pairs"]:
        del pair["evidence"]
    earlier = replace(run, comparison=RunComparison.model_validate_json(orjson.dumps(stored)))
    [before], [now] = pair_standings(earlier), pair_standings(run)
    assert (before.counts.evidence, before.better, before.worse) == (None, 1.0, 1.0)
    assert not any("evidence" in said for said in before.words)
    assert any("evidence" in said for said in now.words)


def test_with_unequal_attempts_a_pair_has_an_interval_and_no_sign_test() -> None:
    once = trials({"a": "+" * 20, "b": "-" * 20})
    pair = the_pair([*once, *(event | {"attempt": 2} for event in once[:20]), ENDED])
    assert (pair.tasks, pair.uneven, pair.ahead, pair.ended) == (20, 20, 0, True)
    assert (pair.p_value, pair.difference) == (None, 1.0)
    assert pair.better == e_value(0, pair.counts.wins) > 40
    assert pair.words == [
        "a:m minus b:m: +100.0 points [74.6, 100.0]; 95 %, for tasks like these",
        "20 of 20 tasks have unequal attempts: no test uses them",
    ]


def test_a_task_that_one_side_has_not_begun_stays_open_and_without_a_plan_only_common_ones_count() -> None:
    once = trials({"a": "-----", "b": ".....+"})
    pair = the_pair([plan(), *once, once[0] | {"attempt": 2}])
    assert (pair.open, pair.uneven, pair.behind) == (18, 1, 0)
    pair = the_pair(trials({"a": "+++", "b": "-."}))
    assert (pair.tasks, pair.ahead, pair.reachable, pair.ended) == (1, 1, None, False)


def test_tables_show_places_and_sentences_with_names_escaped() -> None:
    fifteen = trials({"a": "+" * 15, "b\u202e": "-" * 15})
    ranks, pairs = comparison_tables(compared([plan(), *fifteen]))
    assert [row[1] for row in ranks.rows] == ["1", "2"]
    assert "agents at once" in ranks.note
    assert pairs.rows[0][2:6] == ["15", "0", "0", "5"]
    assert not any("\u202e" in cell for table in (ranks, pairs) for row in table.rows for cell in row)
    without = comparison_tables(compared(trials({"a": "+", "b": "-"})))[0]
    assert without.note.startswith("No ranks: the run declared no complete plan")
    own = comparison_tables(compared([plan(order_kind="chosen", order_history=["run-1"]), *fifteen]))[0]
    assert own.note.endswith("Only the whole plan counts: the order was made from results of a compared run.")
    alone = compared(trials({"a": "+"}))
    assert comparison_tables(alone) == pair_standings(alone) == []


NAMES_OF_FLIPS = (("r", None), ("s", None))


def test_of_several_trials_the_most_frequent_failure_mode_counts_and_passed_ones_do_not() -> None:
    failed = [a_row(attempt=n, success=False, failure_mode=mode) for n, mode in enumerate("zyz", 1)]
    passed = [a_row(attempt=n, failure_mode="x") for n in (4, 5, 6)]
    for trials_of_b, mode in ((failed + passed, "z"), (failed[:2], "y")):
        [group] = of_rows([a_row()], trials_of_b, NAMES_OF_FLIPS).flips
        assert group.failure_mode == mode


def test_tasks_that_both_or_neither_pass_or_one_side_alone_has_are_in_no_group() -> None:
    same = [a_row(task_id="p"), a_row(task_id="f", success=False)]
    assert of_rows(same, same, NAMES_OF_FLIPS).flips == []
    apart = of_rows([a_row(task_id="x")], [a_row(task_id="y")], NAMES_OF_FLIPS)
    assert (apart.tasks, apart.pairs, apart.flips) == (0, [], [])
    assert (apart.a.pass_rate, apart.b.cost_usd) == (None, None)
    assert (apart.a.only_here, apart.b.only_here) == (1, 1)


def test_groups_follow_the_side_the_tier_and_the_failure_mode() -> None:
    modes = ["timeout", "timeout", "none", None, "", "timeout", "timeout"]
    tasks = [{"task_id": f"t{n}", "tier": "T0" if n < 5 else "T1"} for n in range(7)]
    a = [a_row(**task) for task in tasks]
    a.append(a_row(task_id="b wins", success=False, failure_mode="agent_timeout"))
    b = [a_row(**task, success=False, failure_mode=mode) for task, mode in zip(tasks, modes, strict=True)]
    b.append(a_row(task_id="b wins"))
    groups = of_rows(a, b, NAMES_OF_FLIPS, limit=1).flips
    assert [(g.passed_by, g.tier, g.failure_mode, g.count, g.tasks) for g in groups] == [
        ("a", "T0", None, 3, ["T0/t2"]),
        ("a", "T0", "timeout", 2, ["T0/t0"]),
        ("a", "T1", "timeout", 2, ["T1/t5"]),
        ("b", None, "agent_timeout", 1, ["b wins"]),
    ]
