"""Two agents on the same tasks: published values, guarantees at any look, unknown pairs, sets of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from math import comb, inf, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.exact import StatsError, student_t
from streamer.statistics.final import ALPHA, highest, lowest
from streamer.statistics.pairs import (
    Attempts,
    Direction,
    FinalDifference,
    GateVerdict,
    Pair,
    PairedTask,
    e_value,
    evidence_worse,
    final_difference,
    least_losses_at_end,
    no_further_behind,
    paired,
    places,
    places_at_end,
)
from tests.support.examples import examples

WIN, LOSS, BOTH, NEITHER = Pair(True, False), Pair(False, True), Pair(True, True), Pair(False, False)
SIDE = st.sampled_from([True, False, None])


@pytest.mark.parametrize(
    ("wins", "ties", "losses", "low", "high"),
    [(2, 30, 13, -39, 1), (4, 40, 16, -31, -1), (10, 60, 10, -6, 6)],
)
def test_one_prefix_of_two_colours_is_as_published(
    wins: int, ties: int, losses: int, low: int, high: int
) -> None:
    seen, half = wins + ties + losses, ALPHA / 2
    assert lowest(89, seen, wins, half) - highest(89, seen, losses, half) == low
    assert highest(89, seen, wins, half) - lowest(89, seen, losses, half) == high


@pytest.mark.parametrize(("wins", "losses", "worse"), [(10, 30, 63.228), (0, 8, 56.778), (31, 33, 0.19095)])
def test_e_values_are_the_published_ones(wins: int, losses: int, worse: float) -> None:
    assert round(e_value(wins, losses), 5 if worse < 1 else 3) == worse


def test_seven_straight_losses_reject_one_direction() -> None:
    assert [evidence_worse([LOSS] * tasks, 50) >= 1 / ALPHA for tasks in (6, 7)] == [False, True]


@pytest.mark.parametrize(("wins", "losses"), list(product(range(6), range(6))))
def test_an_e_value_is_a_likelihood_averaged_over_the_chances_against_us(wins: int, losses: int) -> None:
    """Of p^losses (1-p)^wins over p from 1/2 to 1, term by term, against (1/2)^n."""
    average = Fraction()
    for term in range(wins + 1):
        power = losses + term + 1
        average += Fraction((-1) ** term * comb(wins, term), power) * (1 - Fraction(1, 2**power))
    assert e_value(wins, losses) == pytest.approx(float(2 * average * 2 ** (wins + losses)), rel=1e-14)


@pytest.mark.parametrize("level", [Fraction(1), ALPHA, ALPHA / 2, ALPHA / 6, ALPHA / 870])
def test_an_e_value_reaches_a_level_where_the_exact_sum_does(level: Fraction) -> None:
    """At 1 it takes more losses than wins (inference 7)."""
    for n in range(1, 65):
        sums = [
            Fraction(sum(comb(n + 1, j) for j in range(k + 1)), (n + 1) * comb(n, k)) for k in range(n + 1)
        ]
        reached = [losses for losses in range(n + 1) if e_value(n - losses, losses) >= 1 / level]
        assert reached == [losses for losses, exact in enumerate(sums) if exact >= 1 / level]
        assert all(2 * losses > n for losses in reached)


def test_evidence_of_many_losses_is_a_number_that_json_can_write() -> None:
    """100,000 straight losses: 2^100,001 / 100,001 is beyond the floats."""
    assert 1e299 < e_value(0, 100_000) <= e_value(3, 100_000) < inf
    assert e_value(10**9, 3) == pytest.approx(1e-9)


@pytest.mark.parametrize("alpha", [ALPHA, Fraction(1, 2), Fraction(4, 5)], ids=str)
def test_of_every_small_plan_few_orders_ever_miss_the_final_difference(alpha: Fraction) -> None:
    """Section 7, exhaustive: every order of wins, ties and losses, every look, up to six pairs.

    So few pairs rule nothing out at 95 %; at the other levels they do.
    """
    for planned in range(1, 7):
        orders: Counter[tuple[int, int]] = Counter()
        missed: Counter[tuple[int, int]] = Counter()
        for order in product((WIN, BOTH, LOSS), repeat=planned):
            counts = order.count(WIN), order.count(LOSS)
            looks = [final_difference(order[:seen], planned, alpha) for seen in range(planned + 1)]
            orders[counts] += 1
            missed[counts] += any(not look.low <= counts[0] - counts[1] <= look.high for look in looks)
        assert all(missed[counts] <= alpha * number for counts, number in orders.items())
        assert orders.total() == 3**planned
    assert (missed.total() > 0) == (alpha > ALPHA)


@pytest.mark.parametrize("planned", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("alpha", [ALPHA, Fraction(4, 5)], ids=str)
def test_the_final_difference_is_as_defined_for_every_small_plan(planned: int, alpha: Fraction) -> None:
    """Sections 5 and 7, by a full scan of integers, for everything that may be known of each pair.

    At an alpha of 4/5 even five pairs rule much out, and some of them leave nothing possible.
    """
    every = [WIN, LOSS, BOTH, Pair(True, None), Pair(False, None), Pair(None, None)]
    empty = 0
    for pairs in product(every, repeat=planned):
        result = final_difference(pairs, planned, alpha)
        (low_won, high_won), (low_lost, high_lost) = (
            _ends_by_definition([sure(pair) for pair in pairs], alpha / 2) for sure in (Pair.won, Pair.lost)
        )
        if low_won > high_won or low_lost > high_lost:
            empty += 1
            assert result.empty
        else:
            assert (result.low, result.high) == (low_won - high_lost, high_won - low_lost)
    assert (empty > 0) == (alpha > ALPHA and planned > 4)


def _ends_by_definition(outcomes: list[bool | None], alpha: Fraction) -> tuple[int, int]:
    """[max L(S, s), min U(S + K, s)] over all prefixes; L and U are the least and the largest possible M."""
    planned, lows, highs = len(outcomes), [], []
    for seen in range(1, planned + 1):
        sure, perhaps = outcomes[:seen].count(True), outcomes[:seen].count(None)
        lows.append(_possible_by_definition(planned, seen, sure, alpha)[0])
        highs.append(_possible_by_definition(planned, seen, sure + perhaps, alpha)[-1])
    return max(lows), min(highs)


def _possible_by_definition(planned: int, seen: int, passed: int, alpha: Fraction) -> list[int]:
    return [
        m
        for m in range(passed, planned - (seen - passed) + 1)
        if (planned + 1) * comb(m, passed) * comb(planned - m, seen - passed)
        > alpha * comb(planned + 1, seen + 1)
    ]


@pytest.mark.parametrize(
    ("pair", "won", "lost"),
    [
        (WIN, True, False),
        (LOSS, False, True),
        (BOTH, False, False),
        (NEITHER, False, False),
        (Pair(True, None), None, False),
        (Pair(False, None), False, None),
        (Pair(None, True), False, None),
        (Pair(None, False), None, False),
        (Pair(None, None), None, None),
    ],
)
def test_an_unknown_pair_may_be_what_its_known_side_allows(
    pair: Pair, won: bool | None, lost: bool | None
) -> None:
    assert (pair.won(), pair.lost()) == (won, lost)


@examples(200)
@given(pairs=st.lists(st.builds(Pair, SIDE, SIDE), min_size=1, max_size=30), data=st.data())
def test_results_narrow_the_difference_and_only_add_evidence(pairs: list[Pair], data: st.DataObject) -> None:
    hidden = [Pair(*(None if data.draw(st.booleans()) else side for side in pair)) for pair in pairs]
    planned = len(pairs) + data.draw(st.integers(0, 30))
    before, after = final_difference(hidden, planned), final_difference(pairs, planned)
    assert before.low <= after.low
    assert after.high <= before.high
    assert evidence_worse(hidden, planned) <= evidence_worse(pairs, planned)


@examples(100)
@given(pairs=st.lists(st.builds(Pair, SIDE, SIDE), max_size=30))
def test_the_other_side_sees_the_mirror_image(pairs: list[Pair]) -> None:
    ours = final_difference(pairs, 40)
    theirs = final_difference([Pair(pair.theirs, pair.ours) for pair in pairs], 40)
    assert (theirs.low, theirs.high) == (-ours.high, -ours.low)


def test_an_order_that_follows_the_outcomes_leaves_no_difference_and_no_verdict() -> None:
    result = final_difference([LOSS] * 20 + [WIN] * 20, 40)
    assert result.low > result.high
    assert no_further_behind(result.ends(), Fraction(1)) is GateVerdict.UNDECIDED


def test_a_plan_that_is_smaller_than_its_pairs_is_refused() -> None:
    with pytest.raises(StatsError, match="at least 2 pairs"):
        final_difference([WIN, LOSS], 1)


def test_a_gate_takes_its_margin_exactly() -> None:
    margin = Fraction("0.02")
    assert no_further_behind(FinalDifference(-2, 9, 100).ends(), margin) is GateVerdict.PASS
    assert no_further_behind(FinalDifference(-3, 9, 100).ends(), margin) is GateVerdict.UNDECIDED
    assert no_further_behind(FinalDifference(-9, -2, 100).ends(), margin) is GateVerdict.UNDECIDED
    assert no_further_behind(FinalDifference(-9, -3, 100).ends(), margin) is GateVerdict.FAIL


# -----------------------------------------------------------------------------
# Places of many agents: Holm's method, and how many losses show that an agent is worse.


def shown_by(p_values: Mapping[Direction, float]) -> Callable[[Fraction], list[Direction]]:
    return lambda level: [pair for pair, p in p_values.items() if p <= level]


@pytest.mark.parametrize("level", [ALPHA, ALPHA / 2, ALPHA / 6, ALPHA / 870, Fraction(1, 2)])
def test_at_the_end_the_least_losses_are_those_of_the_sign_test(level: Fraction) -> None:
    for n, least in enumerate(least_losses_at_end(64, level)):
        tails = [Fraction(sum(comb(n, j) for j in range(losses, n + 1)), 2**n) for losses in range(n + 1)]
        assert [losses for losses, tail in enumerate(tails) if tail <= level] == list(range(least, n + 1))


def test_places_follow_holm_over_all_directions() -> None:
    """Six directions: .05/6 = .0083, .05/5 = .01, .05/4 = .0125. The third fails, and all behind it."""
    p_values = {("c", "a"): 0.008, ("c", "b"): 0.0099, ("b", "a"): 0.0126, ("a", "b"): 0.0127}
    assert places("abc", shown_by(p_values)) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    del p_values["a", "b"]
    decided = shown_by(p_values | {("b", "a"): 0.0124})
    assert places("abc", decided) == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}
    both = shown_by({("a", "b"): 0.001, ("b", "a"): 0.001})
    assert places("ab", both) == {"a": (1, 2), "b": (1, 2)}
    assert places("abc", shown_by({})) == dict.fromkeys("abc", (1, 3))
    assert places(["alone"], shown_by({})) == {"alone": (1, 1)}


@examples(200)
@given(
    st.dictionaries(
        st.sampled_from([pair for pair in product("abcd", repeat=2) if pair[0] != pair[1]]),
        st.sampled_from([0.001, 0.004, 0.0045, 0.006, 0.01, 0.02, 0.05, 0.2]),
    )
)
def test_places_reject_one_direction_after_the_other(p_values: dict[Direction, float]) -> None:
    """Against Holm's own words: the smallest p at alpha/m, the next at alpha/(m-1), until one fails."""
    rejected: set[Direction] = set()
    for number, (pair, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if Fraction(p) * (12 - number) > ALPHA:
            break
        rejected.add(pair)
    result = places("abcd", shown_by(p_values))
    for agent in "abcd":
        behind = sum((agent, other) in rejected and (other, agent) not in rejected for other in "abcd")
        ahead = sum((other, agent) in rejected and (agent, other) not in rejected for other in "abcd")
        assert result[agent] == (1 + behind, 4 - ahead)


PASSED, FAILED, UNKNOWN = Attempts(1, 1), Attempts(1, 0), Attempts(0, 0, 1)


def tasks(*trials: Attempts) -> dict[str, list[Attempts]]:
    """One run."""
    return {f"t{number}": [one] for number, one in enumerate(trials)}


TOLD_APART, NOT_TOLD_APART = {"a": (1, 1), "b": (2, 2)}, {"a": (1, 2), "b": (1, 2)}
SAME = [PASSED, FAILED] * 3


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (tasks(*SAME, *[PASSED] * 6), tasks(*SAME, *[FAILED] * 6), NOT_TOLD_APART),
        (tasks(*SAME, *[PASSED] * 7), tasks(*SAME, *[FAILED] * 7), TOLD_APART),
        (tasks(*[PASSED] * 7, FAILED), tasks(*[FAILED] * 7, UNKNOWN), NOT_TOLD_APART),
        (tasks(*[PASSED] * 7, FAILED), tasks(*[FAILED] * 8), TOLD_APART),
        (tasks(*[PASSED] * 20), {f"b{n}": [FAILED] for n in range(20)}, NOT_TOLD_APART),
    ],
    ids=["six", "seven", "a win is possible", "a win is not possible", "no common task"],
)
def test_two_agents_are_told_apart_from_seven_common_tasks_that_differ_one_way(
    a: dict[str, list[Attempts]], b: dict[str, list[Attempts]], expected: dict[str, tuple[int, int]]
) -> None:
    """Ranks at the end have half of .05, and two directions a half of that: 2^-6 is above, and 2^-7 below.

    With a task that may yet be a win, seven sure losses have p = 9/256 = .035.
    """
    assert places_at_end({"a": a, "b": b}) == expected


def test_places_of_no_agent_and_of_one() -> None:
    assert (places_at_end({}), places_at_end({"a": tasks(PASSED)})) == ({}, {"a": (1, 1)})


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([Attempts(3, 2)], [Attempts(3, 1)], TOLD_APART),
        ([Attempts(3, 3)], [Attempts(2, 0)], NOT_TOLD_APART),
        ([Attempts(2, 2), Attempts(1, 1)], [FAILED, FAILED], TOLD_APART),
        ([PASSED, FAILED, FAILED], [FAILED], TOLD_APART),
        ([FAILED, PASSED, PASSED], [FAILED], NOT_TOLD_APART),
        ([PASSED, FAILED], [FAILED, PASSED], NOT_TOLD_APART),
        ([Attempts(5, 5)], [FAILED] * 4, NOT_TOLD_APART),
    ],
)
def test_as_many_of_the_newest_runs_count_as_give_equal_attempts(
    a: list[Attempts], b: list[Attempts], expected: dict[str, tuple[int, int]]
) -> None:
    names = "abcdefgh"
    assert places_at_end({"a": dict.fromkeys(names, a), "b": dict.fromkeys(names, b)}) == expected
    mirrored = places_at_end({"b": dict.fromkeys(names, b), "a": dict.fromkeys(names, a)})
    assert mirrored == expected


@pytest.mark.parametrize("runs", [([1], [5]), ([1], [1] * 5), ([1], [1] * 2), ([2, 1, 3], [1, 1, 1])])
def test_equal_agents_with_unequal_attempts_keep_all_places(runs: tuple[list[int], list[int]]) -> None:
    """89 tasks at 20 %. At most 5 % of boards may leave out a place of either agent."""
    random, boards = Random(3), 200

    def agent(attempts: list[int]) -> dict[str, list[Attempts]]:
        return {
            f"t{task}": [Attempts(n, sum(random.random() < 0.2 for _ in range(n))) for n in attempts]
            for task in range(89)
        }

    wrong = sum(
        places_at_end({"a": agent(runs[0]), "b": agent(runs[1])}) != NOT_TOLD_APART for _ in range(boards)
    )
    assert wrong <= boards * 0.05


# -----------------------------------------------------------------------------
# Two sets of trials at the same tasks: published p-values, differences by hand, what open tasks allow.


WON, LOST, TIE = PairedTask(PASSED, FAILED), PairedTask(FAILED, PASSED), PairedTask(PASSED, PASSED)


@st.composite
def attempts(draw: st.DrawFn) -> Attempts:
    """Three planned trials, some of them unknown."""
    known = draw(st.integers(0, 3))
    return Attempts(known, draw(st.integers(0, known)), 3 - known)


@pytest.mark.parametrize(
    ("fewer", "more", "p"),
    [(18, 18, 1.000), (33, 31, 0.901), (37, 31, 0.545), (26, 25, 1.000), (31, 28, 0.795)],
)
def test_at_the_end_the_published_p_values_come_out(fewer: int, more: int, p: float) -> None:
    """McNemar's exact test; SWE-bench/experiments#466."""
    result = paired([WON] * fewer + [LOST] * more + [TIE] * 9)
    assert result.p_value is not None
    assert round(result.p_value, 3) == p
    assert (result.ahead, result.behind, result.equal, result.open) == (fewer, more, 9, 0)


def by_hand(tasks: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    """Section 7's interval in plain floats, of (trials, passes, their trials, their passes) by task."""

    def wilson(trials: list[int], passes: list[int]) -> tuple[float, float, float]:
        many, count = len(trials), sum(trials)
        rate = sum(passes) / count
        spread = sum((c - n * rate) ** 2 for n, c in zip(trials, passes, strict=True))
        variance = many / (many - 1) * spread / count**2
        worth: float = many if rate in (0, 1) else count
        if 0 < rate < 1 and variance > 0:
            worth = min(count, rate * (1 - rate) / variance)
        quantile = float(student_t(ALPHA, many - 1))
        middle = (rate + quantile**2 / (2 * worth)) / (1 + quantile**2 / worth)
        half = sqrt(rate * (1 - rate) / worth + quantile**2 / (4 * worth**2)) * quantile
        half /= 1 + quantile**2 / worth
        return rate, middle - half, middle + half

    ours, passed, theirs, other = map(list, zip(*tasks, strict=True))
    (p1, l1, u1), (p2, l2, u2) = wilson(ours, passed), wilson(theirs, other)
    u = [a - n * p1 for n, a, _, _ in tasks]
    v = [b - k * p2 for _, _, k, b in tasks]
    m2 = sum(ours) / len(tasks) * sum(theirs) / len(tasks)
    c = sum(x * y for x, y in zip(u, v, strict=True)) / m2
    c = max(0.0, c - 0.5) if c > 0 else c
    varies = sqrt(sum(x * x for x in u) * sum(y * y for y in v))
    r = c * m2 / varies if varies else 0.0
    low = (p1 - l1) ** 2 - 2 * r * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    high = (u1 - p1) ** 2 - 2 * r * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return p1 - p2 - sqrt(max(0.0, low)), p1 - p2 + sqrt(max(0.0, high))


SIDES = st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@examples(200)
@given(st.lists(st.tuples(SIDES, SIDES), min_size=5, max_size=30))
def test_the_interval_is_as_section_7_by_hand(tasks: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    result = paired([PairedTask(Attempts(*ours), Attempts(*theirs)) for ours, theirs in tasks]).interval
    assert result == pytest.approx(by_hand([(*ours, *theirs) for ours, theirs in tasks]), abs=1e-9)


def test_the_interval_needs_five_tasks_and_never_collapses() -> None:
    """Two tasks had [100, 100] once."""
    assert paired([WON] * 4).interval is None
    five = paired([WON] * 5).interval
    assert five is not None
    assert five.low == pytest.approx(1 - sqrt(2) * (1 - rate_low(5)))
    assert five.high == 1.0
    ties = paired([TIE] * 50).interval
    assert ties is not None
    assert ties.low < 0 < ties.high


def rate_low(tasks: int) -> float:
    """The lower end of section 6 where every task was passed."""
    square = float(student_t(ALPHA, tasks - 1)) ** 2
    return tasks / (tasks + square)


def test_unequal_attempts_have_an_interval() -> None:
    """47 of 80 against 77 of 400: five attempts at each of the same 80 tasks."""
    theirs = [1] * 77 + [0] * 3
    sides = [PairedTask(Attempts(1, n < 47), Attempts(5, theirs[n])) for n in range(80)]
    result = paired(sides)
    assert result.difference == 47 / 80 - 77 / 400
    assert result.interval is not None
    assert result.interval.low > 0.25
    assert (result.p_value, result.uneven) == (None, 80)
    ones = [PairedTask(ours, Attempts(1, n % 5 == 0)) for n, (ours, _) in enumerate(sides)]
    tested = paired(sides, tested=ones)
    assert (tested.interval, tested.p_value) == (result.interval, paired(ones).p_value)


@pytest.mark.parametrize(
    "done", [[WON] * 20 + [LOST] * 2 + [TIE] * 10, [PairedTask(FAILED, FAILED)] * 3 + [TIE]], ids=["33", "5"]
)
def test_missing_trials_widen_interval_and_p_value_and_no_more(done: list[PairedTask]) -> None:
    """With five tasks, the upper end is .44 if the missing trial fails, but .39 if it passes."""
    unknown = paired([*done, PairedTask(UNKNOWN, PASSED)], over=True)
    ends = [paired([*done, end]) for end in (LOST, TIE)]
    lows, highs = zip(*(one.interval for one in ends if one.interval), strict=True)
    assert unknown.interval == (min(lows), max(highs))
    assert unknown.p_value == max(one.p_value or 0 for one in ends)
    assert paired([*done, PairedTask(UNKNOWN, PASSED)]).interval is None


def test_with_several_attempts_signs_and_means_may_disagree() -> None:
    """Two tasks are won by one of three attempts each, one task is lost by all three."""
    narrow = PairedTask(Attempts(3, 1), Attempts(3, 0))
    result = paired([narrow, narrow, PairedTask(Attempts(3, 0), Attempts(3, 3))])
    assert (result.ahead, result.behind) == (2, 1)
    assert result.difference == pytest.approx(-1 / 9)
    assert not result.agrees
    assert paired([narrow, narrow]).agrees


def test_the_sign_test_leaves_out_tasks_with_unequal_attempts() -> None:
    uneven = PairedTask(Attempts(5, 5), Attempts(1, 0))
    mixed = paired([WON] * 6 + [uneven] * 20 + [PairedTask(Attempts(1, 1), Attempts(0, 0, 2))])
    assert (mixed.ahead, mixed.behind, mixed.equal, mixed.open, mixed.uneven) == (6, 0, 0, 0, 21)
    assert paired([WON] * 6 + [uneven] * 20).p_value == paired([WON] * 6).p_value == 2 / 64
    assert paired([uneven] * 20).p_value is None, "nothing was tested"


def test_nothing_in_common_and_an_incomplete_list_of_tasks_say_nothing_and_never_end() -> None:
    nothing, incomplete = paired([]), paired([WON, LOST], complete=False)
    assert (nothing.tasks, nothing.difference, nothing.interval) == (0, None, None)
    for result in (nothing, incomplete):
        assert (result.ended, result.reachable, result.p_value) == (False, None, None)


@examples(200)
@given(st.lists(st.builds(PairedTask, attempts(), attempts()), min_size=1, max_size=8), st.data())
def test_results_only_narrow_what_is_reachable(pairs: list[PairedTask], data: st.DataObject) -> None:
    def finished(side: Attempts) -> Attempts:
        more = data.draw(st.integers(0, side.unknown))
        passed = data.draw(st.integers(0, more))
        return Attempts(side.known + more, side.passed + passed, side.unknown - more)

    before = paired(pairs)
    after = paired([PairedTask(finished(pair.ours), finished(pair.theirs)) for pair in pairs])
    assert before.reachable is not None
    assert after.reachable is not None
    assert before.reachable[0] <= after.reachable[0] <= after.reachable[1] <= before.reachable[1]
    assert before.open >= after.open


@examples(100)
@given(st.lists(st.builds(PairedTask, attempts(), attempts()), max_size=8))
def test_the_other_side_of_sets_of_trials_sees_the_mirror_image(pairs: list[PairedTask]) -> None:
    ours, theirs = paired(pairs), paired([PairedTask(theirs, ours) for ours, theirs in pairs])
    assert (ours.ahead, ours.behind, ours.equal, ours.open) == (
        theirs.behind,
        theirs.ahead,
        theirs.equal,
        theirs.open,
    )
    assert ours.p_value == theirs.p_value
    assert (ours.difference and -ours.difference) == pytest.approx(theirs.difference)


@pytest.mark.parametrize(("ours", "theirs"), list(product((PASSED, FAILED, UNKNOWN), repeat=2)))
def test_a_task_with_one_attempt_is_a_pair(ours: Attempts, theirs: Attempts) -> None:
    pair = PairedTask(ours, theirs)
    can_win = {PASSED: True, FAILED: False, UNKNOWN: True}[ours] and theirs != PASSED
    assert pair.won() is (True if (ours, theirs) == (PASSED, FAILED) else None if can_win else False)
