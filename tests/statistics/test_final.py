"""The interval of the final pass rate: checks of the order, missing intervals, the guarantee, the page."""

from __future__ import annotations

import doctest
import random
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from math import comb, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage import CONCURRENCIES, picture
from benchmarks.simulated_runs import SCENARIOS
from streamer.statistics.exact import StatsError, normal
from streamer.statistics.final import (
    ALPHA,
    DIFFICULTY_LEVEL,
    OUTCOME_LEVEL,
    PREFIXES,
    Conclusion,
    FinalMissing,
    OrderKind,
    Outcome,
    Passes,
    Trial,
    TrialPlan,
    _centred,
    conclude,
    final,
    final_without_order,
    follows_difficulty,
    follows_outcome,
    highest,
    lowest,
    prefixes,
)
from tests.house.repository import ROOT
from tests.support.examples import examples

TASKS = [f"t{number}" for number in range(89)]


def test_an_order_by_declared_difficulty_is_caught_in_both_directions() -> None:
    difficulty = {task: number / 89 for number, task in enumerate(TASKS)}
    assert follows_difficulty(TASKS, difficulty)
    assert follows_difficulty(TASKS[::-1], difficulty)


def test_an_order_that_only_leans_towards_difficulty_is_caught() -> None:
    choice = random.Random(7)
    difficulty = {task: number / 89 + choice.uniform(0, 1) for number, task in enumerate(TASKS)}
    assert follows_difficulty(TASKS, difficulty)


def test_shuffled_orders_fail_in_one_percent() -> None:
    choice = random.Random(18)
    difficulty = {task: choice.choice([0.0, 0.1, 0.5, 1.0]) for task in TASKS}
    failed = sum(follows_difficulty(choice.sample(TASKS, 89), difficulty) for _ in range(2_000))
    assert 8 <= failed <= 34  # 20 expected, and three standard deviations


def test_of_all_orders_of_seven_tasks_few_fail() -> None:
    tasks = TASKS[:7]
    difficulty = {task: number / 7 for number, task in enumerate(tasks)}
    orders = list(permutations(tasks))
    assert sum(follows_difficulty(order, difficulty) for order in orders) <= DIFFICULTY_LEVEL * len(orders)


def test_the_score_is_spearmans() -> None:
    """Against 1 - 6 sum d^2 / (m (m^2 - 1)), which holds without ties."""
    choice = random.Random(5)
    for _ in range(300):
        m = choice.randrange(4, 40)
        ranks = choice.sample(range(m), m)
        blend = sorted(range(m), key=lambda at: ranks[at] + at * choice.random())
        distance = sum((place - rank) ** 2 for place, rank in enumerate(blend))
        rho = 1 - 6 * distance / (m * (m * m - 1))
        tasks = [f"t{number}" for number in range(m)]
        expected = abs(rho) * sqrt(m - 1) > normal(DIFFICULTY_LEVEL)
        assert follows_difficulty(tasks, dict(zip(tasks, map(float, blend), strict=True))) == expected


@pytest.mark.parametrize("difficulty", [{}, {"t1": 0.5}, dict.fromkeys(TASKS, 0.5), {"elsewhere": 1.0}])
def test_with_no_two_difficulties_nothing_is_followed(difficulty: dict[str, float]) -> None:
    assert not follows_difficulty(TASKS, difficulty)
    assert not follows_difficulty([], difficulty)


def test_a_task_that_comes_again_counts_where_it_came_first() -> None:
    difficulty = {task: number / 89 for number, task in enumerate(TASKS)}
    assert follows_difficulty([*TASKS, *TASKS[::-1]], difficulty)


def test_equal_values_share_their_mean_rank() -> None:
    """Ranks 1, 2.5, 2.5, 4, 5 of mean 3, twice."""
    assert _centred([0.2, 0.3, 0.3, 0.7, 0.9]) == [-4, -1, -1, 2, 4]


def exact_share_that_fails(size: int, passed: int) -> float:
    """Of all places that so many passes can have, the share at which the rank-sum test fails."""
    sums: Counter[tuple[int, int]] = Counter({(0, 0): 1})
    for place in _centred(list(range(size))):
        for (stored, score), ways in list(sums.items()):
            if stored < passed:
                sums[stored + 1, score + place] += ways
    limit = normal(OUTCOME_LEVEL) ** 2 * passed * (size - passed) * (size + 1) / 3
    failing = sum(ways for (stored, score), ways in sums.items() if stored == passed and score**2 > limit)
    return failing / comb(size, passed)


@pytest.mark.parametrize(("size", "passed"), [(5, 2), (10, 5), (23, 10), (23, 3), (45, 19)])
def test_a_shuffled_order_fails_one_look_at_outcomes_seldom_enough(size: int, passed: int) -> None:
    assert exact_share_that_fails(size, passed) <= OUTCOME_LEVEL


def test_passes_that_come_first_or_last_are_caught() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    assert follows_outcome(early, 88)
    assert follows_outcome(early[::-1], 88)


def test_a_look_takes_exactly_its_prefix_once_that_is_closed() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    assert not follows_outcome(early[:21], 88)
    assert not follows_outcome([*early[:5], None, *early[6:], *early], 88)
    assert follows_outcome([*early, None, *[True] * 30], 88)
    assert not follows_outcome([*[True, False] * 11, *[True] * 10, *[False] * 11], 88)  # the half is not in


def test_a_look_that_failed_stays_failed() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    later: list[Outcome] = [False, True] * 33
    assert follows_outcome([*early, *later], 88)


def test_shuffled_orders_fail_in_at_most_one_percent() -> None:
    choice = random.Random(18)
    outcomes: list[Outcome] = [*[True] * 38, *[False] * 51]
    failed = sum(follows_outcome(choice.sample(outcomes, 89), 89) for _ in range(2_000))
    assert failed <= 0.01 * 2_000 + 13  # and three standard deviations


@pytest.mark.parametrize("outcomes", [[], [None] * 89, [True] * 89, [False] * 89])
def test_where_all_outcomes_are_the_same_nothing_is_followed(outcomes: list[Outcome]) -> None:
    assert not follows_outcome(outcomes, 89)


# -----------------------------------------------------------------------------
# What may be said of the final pass rate: which reason applies, and that arrival changes nothing.


SHUFFLED = TrialPlan(89, OrderKind.SHUFFLED)


def listed(outcomes: Sequence[Outcome], attempts: int = 1) -> list[Trial]:
    """Trials at places 0, 1, ...; with several attempts, those at a task lie together."""
    return [Trial(f"s{at}", f"t{at // attempts}", outcome, at) for at, outcome in enumerate(outcomes)]


def reason(plan: TrialPlan, trials: list[Trial]) -> FinalMissing | None:
    return conclude("run", plan, trials).missing


def test_an_interval_is_that_of_the_outcomes_in_order() -> None:
    outcomes: list[Outcome] = [True, False, None, True]
    assert conclude("run", SHUFFLED, listed(outcomes)[::-1]) == Conclusion(final(outcomes, 89), None)


def test_an_order_of_unknown_kind_has_an_interval_too() -> None:
    """It is published as `final_if_unrelated`."""
    assert reason(TrialPlan(89), listed([True])) is None


@pytest.mark.parametrize("trials", [None, 0])
def test_without_a_plan_nothing_else_is_said(trials: int | None) -> None:
    assert reason(TrialPlan(trials, OrderKind.CHOSEN), listed([True])) is FinalMissing.NO_PLAN


def test_more_trials_than_planned_are_said_before_the_order() -> None:
    assert reason(TrialPlan(1, OrderKind.CHOSEN), listed([True, False])) is FinalMissing.PLAN_EXCEEDED


def test_a_chosen_order_has_no_interval_from_the_start() -> None:
    assert reason(TrialPlan(89, OrderKind.CHOSEN), []) is FinalMissing.ORDER_CHOSEN


def test_a_trial_without_a_place_makes_the_order_unknown_in_part() -> None:
    trials = [*listed([True, False]), Trial("x", "x")]
    assert reason(SHUFFLED, trials) is FinalMissing.ORDER_UNKNOWN_IN_PART
    assert reason(TrialPlan(89, concurrency=8), trials) is FinalMissing.ORDER_UNKNOWN_IN_PART


def test_a_declared_shuffle_with_a_concurrency_needs_no_places() -> None:
    outcomes: list[Outcome] = [True] * 20 + [False] * 25 + [None] * 2
    trials = [Trial(f"s{at}", f"t{at}", outcome) for at, outcome in enumerate(outcomes)]
    result = conclude("run", TrialPlan(89, OrderKind.SHUFFLED, concurrency=8), trials, later=[True, None])
    assert result.passes == final_without_order(20, 25, 89, 8, stopped=2).grown([True, None])


def test_attempts_that_lie_together_have_no_interval() -> None:
    assert reason(SHUFFLED, listed([True, False, None, True], attempts=2)) is FinalMissing.ATTEMPTS_TOGETHER


def test_an_order_that_follows_difficulty_is_caught_before_any_result() -> None:
    difficulty = {f"t{at}": at / 89 for at in range(89)}
    plan = TrialPlan(89, OrderKind.SHUFFLED, difficulty=difficulty)
    assert reason(plan, listed([None] * 89)) is FinalMissing.ORDER_FOLLOWS_DIFFICULTY
    assert reason(plan, listed([None] * 88)) is FinalMissing.NOTHING_YET  # not the whole list


def test_outcomes_that_follow_the_order_are_caught() -> None:
    assert reason(SHUFFLED, listed([True] * 12 + [False] * 11)) is FinalMissing.ORDER_FOLLOWS_OUTCOME


def test_without_a_final_value_there_is_nothing_yet() -> None:
    assert reason(SHUFFLED, []) is FinalMissing.NOTHING_YET
    assert reason(SHUFFLED, listed([None, None])) is FinalMissing.NOTHING_YET


def test_an_interval_without_a_number_is_empty() -> None:
    """Not closed, so that the check against outcomes does not see it first."""
    outcomes: list[Outcome] = [None, *[True] * 30, *[False] * 30]
    assert reason(TrialPlan(80, OrderKind.SHUFFLED), listed(outcomes)) is FinalMissing.EMPTY


def test_later_trials_are_counted_both_ways() -> None:
    result = conclude("run", SHUFFLED, listed([True, False]), later=[None, True])
    assert result.passes == final([True, False], 89, [None, True])


@examples(100)
@given(
    trials=st.lists(
        st.builds(
            Trial,
            slot=st.uuids().map(str),
            task=st.sampled_from("abcdefgh"),
            outcome=st.sampled_from([True, False, None]),
            place=st.integers(0, 30) | st.none(),
        ),
        max_size=20,
        unique_by=lambda trial: trial.slot,
    ),
    kind=st.sampled_from(OrderKind),
    data=st.data(),
)
def test_the_order_of_arrival_changes_nothing(
    trials: list[Trial], kind: OrderKind, data: st.DataObject
) -> None:
    plan = TrialPlan(25, kind, concurrency=data.draw(st.none() | st.just(4)))
    other = data.draw(st.permutations(trials))
    first, second = conclude("run", plan, trials), conclude("run", plan, other)
    assert first == second
    assert (first.passes is None) != (first.missing is None)


def test_the_guarantee_survives_starts_that_are_never_heard_of() -> None:
    """Failures whose events are lost: their places are gaps, and the true rate stays inside."""
    missed = 0
    for number in range(300):
        choice = random.Random(number)
        outcomes = choice.sample([True] * 38 + [False] * 51, 89)
        heard = [trial for trial in listed([*outcomes[:60]]) if trial.outcome or choice.random() < 0.5]
        result = conclude("run", SHUFFLED, heard)
        missed += result.passes is None or not result.passes.low <= 38 <= result.passes.high
    assert missed <= 0.05 * 300


# -----------------------------------------------------------------------------
# The interval of the final pass rate: its reference values, its guarantee, exactly, and its laws.


OUTCOMES = st.sampled_from([True, False, None])


def ratio(planned: int, seen: int, passed: int, final_passes: int) -> Fraction:
    """The martingale of inference 5, by its formula."""
    ways = comb(final_passes, passed) * comb(planned - final_passes, seen - passed)
    return Fraction((planned + 1) * ways, comb(planned + 1, seen + 1))


@pytest.mark.parametrize(
    ("planned", "seen", "passed", "low", "high"),
    [
        (89, 10, 5, 13, 76),
        (89, 45, 20, 27, 54),
        (89, 80, 38, 38, 47),
        (445, 44, 22, 130, 315),
        (445, 200, 100, 184, 261),
        (500, 400, 300, 357, 391),
    ],
)
def test_one_prefix_gives_the_published_ends(
    planned: int, seen: int, passed: int, low: int, high: int
) -> None:
    """WannabeSmith/confseq_wor, with a uniform prior and alpha .05."""
    assert (lowest(planned, seen, passed), highest(planned, seen, passed)) == (low, high)


@pytest.mark.parametrize("alpha", [ALPHA, Fraction(1, 3), Fraction(1, 1000), Fraction(1, 1_000_000)])
def test_bisection_finds_what_a_full_scan_finds(alpha: Fraction) -> None:
    for planned in range(1, 15):
        for seen in range(planned + 1):
            for passed in range(seen + 1):
                every = [m for m in range(planned + 1) if ratio(planned, seen, passed, m) > alpha]
                ends = lowest(planned, seen, passed, alpha), highest(planned, seen, passed, alpha)
                assert every == list(range(ends[0], ends[1] + 1)), (planned, seen, passed)


def test_a_ratio_that_is_exactly_alpha_is_not_possible() -> None:
    """Logarithms cannot tell it from one beside it, so integers decide."""
    exact = ratio(89, 45, 20, 27)
    nearly = exact * Fraction(10**30 - 1, 10**30)
    assert (lowest(89, 45, 20, exact), lowest(89, 45, 20, nearly)) == (28, 27)


def test_a_plan_of_a_million_trials_has_ends_that_the_integers_confirm() -> None:
    planned, seen, passed = 1_000_000, 500, 200
    low = lowest(planned, seen, passed)
    assert ratio(planned, seen, passed, low) > ALPHA >= ratio(planned, seen, passed, low - 1)


def share_of_orders_that_miss(planned: int, passes: int) -> Fraction:
    """How many of all orders have a prefix, of whatever length, that rules the true number of passes out.

    Counts the orders that have not missed yet, by the passes among their first trials.
    """
    alive = {0: 1}
    for seen in range(1, planned + 1):
        longer: dict[int, int] = {}
        for passed, orders in alive.items():
            for more in (passed, passed + 1):
                if lowest(planned, seen, more) <= passes <= highest(planned, seen, more):
                    longer[more] = longer.get(more, 0) + orders
        alive = longer
    return 1 - Fraction(alive.get(passes, 0), comb(planned, passes))


@pytest.mark.parametrize(("planned", "at_most"), [(20, "2.15"), (40, "2.99"), (89, "3.60"), (200, "3.89")])
def test_the_chance_that_any_look_ever_misses_is_below_five_percent(planned: int, at_most: str) -> None:
    shares = [share_of_orders_that_miss(planned, passes) for passes in range(planned + 1)]
    assert max(shares) <= ALPHA
    assert f"{float(max(shares)) * 100:.2f}" == at_most


def test_of_38_passes_in_89_trials_fewer_orders_miss() -> None:
    assert f"{float(share_of_orders_that_miss(89, 38)) * 100:.2f}" == "3.25"


def test_the_interval_is_the_tightest_of_all_prefixes() -> None:
    outcomes: list[Outcome] = [True, False, None, True, True, False, None, False, True, True]
    lows, highs = [], []
    for seen in prefixes(40):
        known = outcomes[:seen]
        passed, unknown = known.count(True), known.count(None) + max(0, seen - len(outcomes))
        lows.append(lowest(40, seen, passed))
        highs.append(highest(40, seen, passed + unknown))
    assert final(outcomes, 40) == Passes(max(lows), min(highs), 40)


@pytest.mark.parametrize("planned", [1, 2, 63, 64, 65, 89, 5000])
def test_prefixes_are_64_or_every_one_and_end_with_the_whole_plan(planned: int) -> None:
    sizes = prefixes(planned)
    assert len(sizes) == min(planned, PREFIXES)
    assert list(sizes) == sorted(set(sizes))
    assert (sizes[0] >= 1, sizes[-1]) == (True, planned)


@st.composite
def before_and_after(draw: st.DrawFn) -> tuple[int, list[Outcome], list[Outcome]]:
    """A plan, outcomes at some look, and at a later look with more of them known."""
    after = draw(st.lists(OUTCOMES, max_size=40))
    hidden = draw(st.lists(st.booleans(), min_size=len(after), max_size=len(after)))
    before = [None if missing else outcome for outcome, missing in zip(after, hidden, strict=True)]
    return len(after) + draw(st.integers(0 if after else 1, 100)), before, after


@examples(400)
@given(looks=before_and_after())
def test_results_only_narrow_the_interval(looks: tuple[int, list[Outcome], list[Outcome]]) -> None:
    planned, before, after = looks
    first, second = final(before, planned), final(after, planned)
    assert first.low <= second.low
    assert second.high <= first.high


@examples(200)
@given(outcomes=st.lists(OUTCOMES, max_size=30), more=st.integers(0, 30))
def test_the_interval_lies_within_the_hard_bounds(outcomes: list[Outcome], more: int) -> None:
    planned = len(outcomes) + more + 1
    result = final(outcomes, planned)
    assert result.low >= outcomes.count(True)
    assert result.high <= planned - outcomes.count(False)


@examples(200)
@given(outcomes=st.lists(st.booleans(), min_size=1, max_size=60))
def test_with_all_results_in_only_the_final_number_is_left(outcomes: list[bool]) -> None:
    result = final(outcomes, len(outcomes))
    assert result.empty or (result.low, result.high) == (sum(outcomes), sum(outcomes))


@examples(200)
@given(
    outcomes=st.lists(OUTCOMES, max_size=30), more=st.integers(1, 50), later=st.lists(OUTCOMES, max_size=10)
)
def test_trials_that_join_the_plan_are_counted_both_ways(
    outcomes: list[Outcome], more: int, later: list[Outcome]
) -> None:
    planned = len(outcomes) + more
    first, grown = final(outcomes, planned), final(outcomes, planned, later)
    assert (grown.planned, grown.empty) == (planned + len(later), first.empty)
    if not first.empty:
        assert grown.low == first.low + later.count(True)
        assert grown.high == first.high + later.count(True) + later.count(None)


def test_an_order_that_follows_the_outcomes_leaves_no_number() -> None:
    sorted_by_outcome = [True] * 40 + [False] * 40
    assert final(sorted_by_outcome, 80).empty
    assert final(sorted_by_outcome, 80, later=[None] * 90).empty


def test_a_plan_that_is_smaller_than_its_outcomes_is_refused() -> None:
    with pytest.raises(StatsError, match="at least 2 trials"):
        final([True, None], 1)
    with pytest.raises(StatsError, match="at least 1 trials"):
        final([], 0)
    with pytest.raises(StatsError, match="at least 3 trials"):
        final_without_order(2, 1, 2, 8)


def test_without_an_order_the_running_trials_and_the_stopped_ones_are_unknown() -> None:
    result = final_without_order(passed=20, failed=25, planned=89, concurrency=8, stopped=2)
    assert result == Passes(lowest(89, 55, 20), highest(89, 55, 30), 89)


def test_without_an_order_no_more_is_unknown_than_is_left() -> None:
    assert final_without_order(40, 45, 89, concurrency=8, stopped=3) == Passes(40, 44, 89)
    assert final_without_order(0, 0, 5, concurrency=8) == Passes(0, 5, 5)


@examples(100)
@given(
    outcomes=st.lists(st.booleans(), min_size=1, max_size=60),
    running=st.integers(0, 8),
    waiting=st.integers(0, 30),
)
def test_without_an_order_the_hard_bounds_hold_too(outcomes: list[bool], running: int, waiting: int) -> None:
    planned = len(outcomes) + running + waiting
    result = final_without_order(outcomes.count(True), outcomes.count(False), planned, max(1, running))
    assert result.empty or outcomes.count(True) <= result.low <= result.high
    assert result.high <= planned - outcomes.count(False)


# -----------------------------------------------------------------------------
# docs/inference.md says what the code does: its examples run, its codes and its picture are the code's.


PAGE = ROOT / "docs" / "inference.md"
TEXT = PAGE.read_text("utf-8")


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried > 0) == (0, True)


def test_the_codes_stand_in_the_order_in_which_they_apply() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE)[-len(FinalMissing) :] == list(FinalMissing)


def test_the_picture_is_the_one_that_its_command_draws() -> None:
    assert "\n".join(picture(3)) in TEXT


def test_the_table_has_a_row_for_each_scenario() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| [\d.]+% \|", TEXT, re.MULTILINE)
    for is_shuffled in (True, False):
        expected = [
            (scenario.name, str(at_once))
            for scenario in SCENARIOS
            if scenario.is_shuffled is is_shuffled
            for at_once in scenario.at_once or CONCURRENCIES
        ]
        assert [row for row in rows if row in expected] == expected


def test_every_section_that_code_cites_is_on_the_page() -> None:
    cited = set()
    for path in (ROOT / "streamer" / "statistics").glob("*.py"):
        cited |= set(re.findall(r"inference (\d)", path.read_text("utf-8")))
    assert cited <= set(re.findall(r"^## (\d)\. ", TEXT, re.MULTILINE))
    assert len(cited) >= 4
