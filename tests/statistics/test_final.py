"""The interval of the final pass rate: the order of trials, missing intervals, the guarantee, the page."""

from __future__ import annotations

import doctest
import random
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
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
    PREFIXES,
    Conclusion,
    FinalMissing,
    OrderKind,
    Outcome,
    Passes,
    Trial,
    TrialPlan,
    _centred,
    attempts_together,
    conclude,
    final,
    final_without_order,
    follows_difficulty,
    follows_outcome,
    hash_shuffled,
    highest,
    in_order,
    lowest,
    prefixes,
    sequence,
)
from tests.house.repository import ROOT
from tests.support.examples import examples

TASKS = [f"t{number}" for number in range(89)]
EVEN = {task: number / 89 for number, task in enumerate(TASKS)}
NOISE = random.Random(7)
LEANING = {task: rank + NOISE.uniform(0, 1) for task, rank in EVEN.items()}


@pytest.mark.parametrize(
    ("order", "difficulty", "follows"),
    [
        (TASKS, EVEN, True),
        (TASKS[::-1], EVEN, True),
        (TASKS, LEANING, True),
        ([*TASKS, *TASKS[::-1]], EVEN, True),
        ([], {}, False),
        *((TASKS, of, False) for of in ({}, {"t1": 0.5}, dict.fromkeys(TASKS, 0.5), {"elsewhere": 1.0})),
    ],
    ids=["up", "down", "leaning", "first place counts", "no task", "none", "one", "equal", "elsewhere"],
)
def test_an_order_that_goes_with_two_or_more_difficulties_is_caught(
    order: list[str], difficulty: dict[str, float], follows: bool
) -> None:
    assert follows_difficulty(order, difficulty) is follows


def test_shuffled_orders_fail_in_one_percent() -> None:
    choice = random.Random(18)
    difficulty = {task: choice.choice([0.0, 0.1, 0.5, 1.0]) for task in TASKS}
    failed = sum(follows_difficulty(choice.sample(TASKS, 89), difficulty) for _ in range(2_000))
    assert 8 <= failed <= 34  # 20 expected, and three standard deviations


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


def test_equal_values_share_their_mean_rank() -> None:
    """Ranks 1, 2.5, 2.5, 4, 5 of mean 3, twice."""
    assert _centred([0.2, 0.3, 0.3, 0.7, 0.9]) == [-4, -1, -1, 2, 4]


EARLY: list[Outcome] = [*[True] * 11, *[False] * 11]


@pytest.mark.parametrize(
    ("outcomes", "follows"),
    [
        (EARLY, True),
        (EARLY[::-1], True),
        (EARLY[:21], False),
        ([*EARLY[:5], None, *EARLY[6:], *EARLY], False),
        ([*EARLY, None, *[True] * 30], True),
        ([*[True, False] * 11, *[True] * 10, *[False] * 11], False),
        ([*EARLY, *[False, True] * 33], True),
        *(([outcome] * 89, False) for outcome in (None, True, False)),
        ([], False),
    ],
    ids=["first", "last", "early", "gap", "later", "half", "stays", "unknown", "passed", "failed", "nothing"],
)
def test_a_look_takes_exactly_its_prefix_once_that_is_closed_and_what_failed_stays_failed(
    outcomes: list[Outcome], follows: bool
) -> None:
    assert follows_outcome(outcomes, max(88, len(outcomes))) is follows


def test_shuffled_orders_fail_in_at_most_one_percent() -> None:
    choice = random.Random(18)
    outcomes: list[Outcome] = [*[True] * 38, *[False] * 51]
    failed = sum(follows_outcome(choice.sample(outcomes, 89), 89) for _ in range(2_000))
    assert failed <= 0.01 * 2_000 + 13  # and three standard deviations


# -----------------------------------------------------------------------------
# What may be said of the final pass rate: which reason applies, and that arrival changes nothing.


SHUFFLED = TrialPlan(89, OrderKind.SHUFFLED)
BY_DIFFICULTY = TrialPlan(89, OrderKind.SHUFFLED, difficulty=EVEN)


def listed(outcomes: Sequence[Outcome], attempts: int = 1) -> list[Trial]:
    """Trials at places 0, 1, ...; with several attempts, those at a task lie together."""
    return [Trial(f"s{at}", f"t{at // attempts}", outcome, at) for at, outcome in enumerate(outcomes)]


WITHOUT_A_PLACE = [*listed([True, False]), Trial("x", "x")]


@pytest.mark.parametrize(
    ("plan", "trials", "missing"),
    [
        (TrialPlan(89), listed([True]), None),
        (TrialPlan(None, OrderKind.CHOSEN), listed([True]), FinalMissing.NO_PLAN),
        (TrialPlan(0, OrderKind.CHOSEN), listed([True]), FinalMissing.NO_PLAN),
        (TrialPlan(1, OrderKind.CHOSEN), listed([True, False]), FinalMissing.PLAN_EXCEEDED),
        (TrialPlan(89, OrderKind.CHOSEN), [], FinalMissing.ORDER_CHOSEN),
        (SHUFFLED, WITHOUT_A_PLACE, FinalMissing.ORDER_UNKNOWN_IN_PART),
        (TrialPlan(89, concurrency=8), WITHOUT_A_PLACE, FinalMissing.ORDER_UNKNOWN_IN_PART),
        (SHUFFLED, listed([True, False, None, True], attempts=2), FinalMissing.ATTEMPTS_TOGETHER),
        (BY_DIFFICULTY, listed([None] * 89), FinalMissing.ORDER_FOLLOWS_DIFFICULTY),
        (BY_DIFFICULTY, listed([None] * 88), FinalMissing.NOTHING_YET),  # not the whole list
        (SHUFFLED, listed([True] * 12 + [False] * 11), FinalMissing.ORDER_FOLLOWS_OUTCOME),
        (SHUFFLED, [], FinalMissing.NOTHING_YET),
        (SHUFFLED, listed([None, None]), FinalMissing.NOTHING_YET),
        # Not closed, so that the check against outcomes does not see it first.
        (TrialPlan(80, OrderKind.SHUFFLED), listed([None, *[True] * 30, *[False] * 30]), FinalMissing.EMPTY),
    ],
)
def test_of_several_reasons_why_there_is_no_interval_the_first_one_is_said(
    plan: TrialPlan, trials: list[Trial], missing: FinalMissing | None
) -> None:
    """An order of unknown kind has an interval too, which is published as `final_if_unrelated`."""
    assert conclude("run", plan, trials).missing is missing


def test_an_interval_is_that_of_the_outcomes_in_order_and_later_trials_count_both_ways() -> None:
    outcomes: list[Outcome] = [True, False, None, True]
    for later in ([], [None, True]):
        concluded = conclude("run", SHUFFLED, listed(outcomes)[::-1], later=later)
        assert concluded == Conclusion(final(outcomes, 89, later), None)


def test_a_declared_shuffle_with_a_concurrency_needs_no_places() -> None:
    outcomes: list[Outcome] = [True] * 20 + [False] * 25 + [None] * 2
    trials = [Trial(f"s{at}", f"t{at}", outcome) for at, outcome in enumerate(outcomes)]
    result = conclude("run", TrialPlan(89, OrderKind.SHUFFLED, concurrency=8), trials, later=[True, None])
    assert result.passes == final_without_order(20, 25, 89, 8, stopped=2).grown([True, None])


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
def test_the_order_of_arrival_is_no_matter(trials: list[Trial], kind: OrderKind, data: st.DataObject) -> None:
    plan = TrialPlan(25, kind, concurrency=data.draw(st.none() | st.just(4)))
    other = data.draw(st.permutations(trials))
    first, second = conclude("run", plan, trials), conclude("run", plan, other)
    assert first == second
    assert (first.passes is None) != (first.missing is None)


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
def test_one_prefix_has_the_published_ends(planned: int, seen: int, passed: int, low: int, high: int) -> None:
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
    assert planned != 89 or f"{float(shares[38]) * 100:.2f}" == "3.25"


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
    assert before.count(True) <= first.low <= second.low
    assert second.high <= first.high <= planned - before.count(False)
    assert second.low >= after.count(True)
    assert second.high <= planned - after.count(False)


@examples(200)
@given(outcomes=st.lists(st.booleans(), min_size=1, max_size=60))
def test_with_all_results_in_only_the_final_number_is_left(outcomes: list[bool]) -> None:
    result = final(outcomes, len(outcomes))
    assert result.empty or (result.low, result.high) == (sum(outcomes), sum(outcomes))


@examples(200)
@given(
    outcomes=st.lists(OUTCOMES, max_size=30), more=st.integers(1, 50), later=st.lists(OUTCOMES, max_size=10)
)
def test_trials_that_join_the_plan_count_both_ways(
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


def test_without_an_order_running_and_stopped_trials_are_unknown_and_no_more_than_are_left() -> None:
    result = final_without_order(passed=20, failed=25, planned=89, concurrency=8, stopped=2)
    assert result == Passes(lowest(89, 55, 20), highest(89, 55, 30), 89)
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


# -----------------------------------------------------------------------------
# The order of planned trials: places first, hashes for ties, gaps as unknown trials.


NAMED = [f"task-{number}" for number in range(12)]


def trials_of(places: list[int | None]) -> list[Trial]:
    return [Trial(f"s{number}", f"t{number}", None, place) for number, place in enumerate(places)]


@examples(100)
@given(tasks=st.lists(st.sampled_from(NAMED), max_size=30), seed=st.text(max_size=5), data=st.data())
def test_a_shuffle_hangs_on_seed_and_tasks_alone(tasks: list[str], seed: str, data: st.DataObject) -> None:
    shuffled = hash_shuffled(tasks, seed)
    assert Counter(shuffled) == Counter(tasks)
    assert hash_shuffled(data.draw(st.permutations(tasks)), seed) == shuffled


@examples(50)
@given(tasks=st.lists(st.sampled_from(NAMED), unique=True, min_size=1), data=st.data())
def test_a_task_less_leaves_the_order_of_the_others(tasks: list[str], data: st.DataObject) -> None:
    missing = data.draw(st.sampled_from(tasks))
    others = [task for task in hash_shuffled(tasks, "seed") if task != missing]
    assert hash_shuffled([task for task in tasks if task != missing], "seed") == others


def test_every_task_is_first_about_equally_often() -> None:
    first = Counter(hash_shuffled(NAMED, str(seed))[0] for seed in range(1_200))
    assert set(first) == set(NAMED)
    assert all(60 < times < 140 for times in first.values())


def test_attempts_at_a_task_are_shuffled_as_trials_of_their_own() -> None:
    order = hash_shuffled(NAMED * 4, "seed")
    assert set(order[: len(NAMED)]) != set(NAMED), "no rounds"
    assert not attempts_together(order)


@examples(100)
@given(places=st.lists(st.none() | st.integers(0, 6), max_size=12), data=st.data())
def test_arrival_changes_no_order_of_places(places: list[int | None], data: st.DataObject) -> None:
    trials = trials_of(places)
    ordered = in_order("run", trials)
    assert in_order("run", data.draw(st.permutations(trials))) == ordered
    numbers = [99 if trial.place is None else trial.place for trial in ordered]
    assert numbers == sorted(numbers)


def test_ties_do_not_follow_the_names() -> None:
    """Of 40 trials at one place, and in a hundred runs: the first is another one each time."""
    trials = trials_of([3] * 40)
    orders = [[trial.slot for trial in in_order(f"run {number}", trials)] for number in range(100)]
    assert len({order[0] for order in orders}) > 30
    assert all(order != sorted(order) for order in orders)


def test_a_missing_place_is_an_unknown_trial() -> None:
    ordered = [Trial("a", "a", True, 1), Trial("b", "b", False, 4)]
    assert sequence(ordered, 10) == [None, True, None, None, False]


def test_no_more_trials_are_put_into_gaps_than_the_plan_has_left() -> None:
    """A trial that was started again took a number of the count, and kept its first one."""
    ordered = [Trial("a", "a", True, 0), Trial("b", "b", False, 2), Trial("c", "c", True, 1_000_000_000)]
    assert sequence(ordered, 5) == [True, None, False, None, True]
    assert sequence(ordered, 4) == [True, None, False, True]
    assert sequence(ordered, 3) == [True, False, True]


def test_places_of_others_are_no_gaps() -> None:
    ordered = [Trial("a", "a", True, 2), Trial("b", "b", False, 5)]
    assert sequence(ordered, 9, others={0, 1, 4}) == [True, None, False]


def test_trials_without_a_place_come_last_and_make_no_gap() -> None:
    ordered = in_order("run", [Trial("x", "x", True), Trial("a", "a", False, 0)])
    assert sequence(ordered, 9) == [False, True]


@examples(200)
@given(data=st.data())
def test_a_start_that_comes_late_only_moves_known_trials_forward(data: st.DataObject) -> None:
    """So each prefix knows at least what it knew before: the interval narrows."""
    places = data.draw(st.lists(st.integers(0, 20), unique=True, min_size=1, max_size=10))
    planned = len(places) + data.draw(st.integers(0, 15))
    all_trials = [Trial(f"s{place}", f"s{place}", place % 2 == 0, place) for place in places]
    fewer = all_trials[: data.draw(st.integers(0, len(all_trials)))]
    before, after = (sequence(in_order("run", trials), planned) for trials in (fewer, all_trials))
    for length in range(planned + 1):
        for outcome in (True, False):
            assert before[:length].count(outcome) <= after[:length].count(outcome)


APART = ["", "abc", "abca", "abccba", "abab", "aabbab", "abbac"]


@pytest.mark.parametrize(
    ("order", "expected"), [*((order, False) for order in APART), ("aa", True), ("bbaac", True)]
)
def test_attempts_lie_together_or_anywhere(order: str, expected: bool) -> None:
    assert attempts_together(order) is expected
