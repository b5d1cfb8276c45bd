"""Two sides are compared on the tasks that both have done."""

from __future__ import annotations

from streamer.views.compare import compare, worse_by
from streamer.views.trial_rows import outcome_of
from tests.support.builders import a_row

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
