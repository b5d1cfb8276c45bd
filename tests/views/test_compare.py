"""Two sides are compared on the tasks that both have done."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.client.queries import ComparedRun
from streamer.schemas.summaries import AgentModelSummary
from streamer.views.compare import compare, has_ended, worse_by
from streamer.views.models import outcome_of
from tests.support.board_runs import board_runs
from tests.support.builders import a_row
from tests.support.events import a_plan, a_trial

PAIR = (("r", None), ("r", "b:m"))


def test_sides_are_compared_on_the_tasks_of_the_tiers_that_both_have_done() -> None:
    first = [
        a_row(task_id="x", tier="T0", cost_usd=1.0),
        a_row(task_id="x", tier="T0", attempt=2, success=False, cost_usd=3.0),
        a_row(task_id="y", tier="T0", cost_usd=9.0),
        a_row(task_id="z", tier="T0"),
    ]
    second = [
        a_row(task_id="x", tier="T0", cost_usd=1.0),
        a_row(task_id="y", tier="T1"),
        a_row(task_id="z", tier="T0", success=False, cost_usd=5.0),
        a_row(task_id="w", tier="T0"),
    ]
    found = compare(first, second, PAIR, 0, 10)
    assert (found.tasks, found.a_better, found.b_better, found.equal) == (2, 1, 1, 0)
    assert (found.a.only_here, found.b.only_here) == (1, 2)
    assert [(pair.task_id, pair.a.pass_rate, pair.b.pass_rate) for pair in found.pairs] == [
        ("z", 1.0, 0.0),
        ("x", 0.5, 1.0),
    ]
    assert (found.a.pass_rate, found.b.pass_rate) == (0.75, 0.5)  # means of (1, 1/2) and (0, 1)
    assert (found.a.cost_usd, found.b.cost_usd) == (2.0, 1.0)  # of x alone: z has no known cost on one side
    assert (found.a.trials, found.b.trials) == (3, 2)


def test_a_task_is_passed_by_a_side_that_succeeds_in_more_than_half_of_its_trials() -> None:
    halves = [a_row(task_id="x", success=True), a_row(task_id="x", success=False, attempt=2)]
    both = compare([a_row(task_id="x")], [*halves, a_row(task_id="x", attempt=3)], PAIR, 0, 10)
    assert (both.both_passed, both.only_a, both.only_b, both.neither) == (1, 0, 0, 0)
    half = compare([a_row(task_id="x")], halves, PAIR, 0, 10)
    assert (half.both_passed, half.only_a, half.only_b, half.neither) == (0, 1, 0, 0)


def test_a_difference_is_over_the_tasks_where_both_know_the_metric_and_knows_what_is_better() -> None:
    first = [a_row(task_id=f"t{n}", cost_usd=1.0, task_speedup=2.0) for n in range(4)]
    second = [a_row(task_id=f"t{n}", cost_usd=1.5, success=n > 0) for n in range(4)]
    second[3] = a_row(task_id="t3", cost_usd=0.5, task_speedup=1.5)
    found = compare(first, second, PAIR, 0, 10).differences
    cost, speedup, passes = found["cost_usd"], found["task_speedup"], found["pass_rate"]
    assert (cost.tasks, cost.mean, cost.a_better, cost.b_better) == (4, 0.25, 3, 1)
    assert (speedup.tasks, speedup.mean, speedup.a_better, speedup.p_value) == (1, -0.5, 1, 1.0)
    assert (passes.mean, passes.a_better, passes.b_better, passes.equal) == (-0.25, 1, 0, 3)
    assert (worse_by(cost), worse_by(speedup), worse_by(passes)) == (0.25, 0.5, 0.25)
    assert worse_by(found["agent_advantage"]) is None


def test_the_sign_test_leaves_out_tasks_with_unequal_attempts() -> None:
    """Eight tasks with one trial against two say nothing; six with one trial each have p = 2/64."""
    names = [f"t{n}" for n in range(14)]
    first = [a_row(task_id=name) for name in names]
    second = [a_row(task_id=name, success=False) for name in names]
    second += [a_row(task_id=name, success=False, attempt=2) for name in names[6:]]
    passes = compare(first, second, PAIR, 0, 10).differences["pass_rate"]
    assert (passes.tasks, passes.a_better, passes.mean, passes.p_value) == (14, 14, -1.0, 2 / 64)
    uneven = compare(first[6:], second[6:], PAIR, 0, 10).differences["pass_rate"]
    assert (uneven.a_better, uneven.p_value) == (8, None), "nothing could be tested, so there is no p"
    alike = compare(second[6:], second[6:], PAIR, 0, 10).differences["pass_rate"]
    assert (alike.equal, alike.p_value) == (8, 1.0), "nothing differs"


def test_at_the_end_each_metric_has_the_t_interval_of_its_paired_differences() -> None:
    """Differences 0.5, -0.5, 1.0, 1.0: mean 0.5, standard error sqrt(0.5)/2, t(3) = 3.1824."""
    first = [a_row(task_id=f"t{n}", cost_usd=1.0) for n in range(4)]
    costs = (1.5, 0.5, 2.0, 2.0)
    second = [a_row(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(costs)]
    running = compare(first, second, PAIR, 0, 10)
    assert (running.ended, running.differences["cost_usd"].interval) == (False, None)
    ended = compare(first, second, PAIR, 0, 10, ended=True).differences
    interval = ended["cost_usd"].interval
    assert interval is not None
    half = 3.182446 * 0.5**0.5 / 2
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)
    assert ended["task_speedup"].interval is None
    assert compare(first[:1], second, PAIR, 0, 10, ended=True).differences["cost_usd"].interval is None


def test_named_metrics_are_compared_where_both_sides_know_them() -> None:
    first = [a_row(task_id=f"t{n}", metrics={"wait": 2.0, "mine": 1.0}) for n in range(2)]
    second = [a_row(task_id="t0", metrics={"wait": 5.0, "yours": 1.0}), a_row(task_id="t1")]
    readings = {"wait": {"direction": "lower", "unit": "seconds", "label": "Wait"}}
    found = compare(first, second, PAIR, 0, 10, readings=readings)
    wait = found.differences["metrics/wait"]
    assert (wait.tasks, wait.mean, wait.a_better, wait.unit, wait.label) == (1, 3.0, 1, "seconds", "Wait")
    assert worse_by(wait) == 3.0
    assert (found.a.metrics, found.b.metrics) == ({"wait": 2.0}, {"wait": 5.0})
    assert not {"metrics/mine", "metrics/yours"} & found.differences.keys()
    unread = compare(first, second, PAIR, 0, 10).differences["metrics/wait"]
    assert (unread.higher_is_better, unread.unit) == (True, None)


def a_run(*events: dict[str, Any]) -> tuple[ComparedRun, list[AgentModelSummary]]:
    [found] = board_runs([a_plan(tasks=2, attempts=1), *events])
    return ComparedRun(found.run, None, found.tasks), found.agents


def test_a_side_has_ended_once_none_of_its_trials_is_missing() -> None:
    whole = [a_trial(task_id=f"t{n}") for n in range(2)]
    assert has_ended(*a_run(*whole), None)
    assert has_ended(*a_run(*whole), "terminus:gpt-5")
    assert not has_ended(*a_run(*whole), "other:m")
    assert not has_ended(*a_run(whole[0]), None)
    assert not has_ended(*a_run(whole[0], {"type": "run_finished", "run_id": "run-1"}), None)
    assert not has_ended(*a_run(whole[0], a_trial(task_id="t1", resolved=None)), None)


def test_without_a_plan_a_side_ends_with_its_run() -> None:
    def ended(*more: dict[str, Any]) -> bool:
        [found] = board_runs([a_trial(), *more])
        return has_ended(ComparedRun(found.run, None, found.tasks), found.agents, None)

    assert not ended()
    assert ended({"type": "run_finished", "run_id": "run-1"})


def test_with_nothing_in_common_every_mean_is_unknown() -> None:
    found = compare([a_row(task_id="x")], [a_row(task_id="y")], (("r", None), ("s", None)), 0, 10)
    assert (found.tasks, found.pairs, found.a.pass_rate, found.b.cost_usd) == (0, [], None, None)
    assert (found.a.only_here, found.b.only_here) == (1, 1)


def test_a_trial_that_fell_back_has_not_passed() -> None:
    trial = {"success": True, "resolved": True, "formulacode": {"fallback_to_baseline": True}}
    assert outcome_of(trial) == "fell_back"
    assert outcome_of(trial | {"formulacode": None}) == "passed"
    assert outcome_of({"success": False, "resolved": None, "formulacode": None}) == "no_verdict"
    assert outcome_of({"success": False, "resolved": False, "formulacode": None}) == "failed"
