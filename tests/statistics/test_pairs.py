"""Two agents on the same tasks: published values, the guarantee at any look, and unknown pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from math import comb, inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.exact import StatsError
from streamer.statistics.final import ALPHA, highest, lowest
from streamer.statistics.pairs import (
    Attempts,
    Direction,
    FinalDifference,
    GateVerdict,
    Pair,
    e_value,
    evidence_worse,
    final_difference,
    least_losses_at_end,
    no_further_behind,
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
def test_one_prefix_of_two_colours_gives_the_published_ends(
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


def test_a_fair_coin_ever_reaches_twenty_in_at_most_five_percent() -> None:
    alive, rejected = {0: Fraction(1)}, Fraction()
    for tosses in range(1, 121):
        following: dict[int, Fraction] = {}
        for losses, share in alive.items():
            for more in (losses, losses + 1):
                following[more] = following.get(more, Fraction()) + share / 2
        for losses in [stored for stored in following if e_value(tosses - stored, stored) >= 1 / ALPHA]:
            rejected += following.pop(losses)
        alive = following
    assert Fraction(1, 100) < rejected <= ALPHA


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
def test_the_final_difference_is_that_of_its_definition_for_every_small_plan(
    planned: int, alpha: Fraction
) -> None:
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
def test_an_unknown_pair_may_become_what_its_known_side_allows(
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


@pytest.mark.parametrize("planned", [*range(1, 13), 16])
def test_the_difference_misses_at_any_look_in_at_most_five_percent_of_all_orders(planned: int) -> None:
    """Exact, for every mixture of wins, ties and losses. With so few pairs each of them is a prefix.

    The difference can miss only once the wins or the losses have missed.
    """
    for wins in range(planned + 1):
        for losses in range(planned + 1 - wins):
            orders = comb(planned, wins) * comb(planned - wins, losses)
            assert orders - _orders_never_missed(planned, wins, losses) <= ALPHA * orders


def _orders_never_missed(planned: int, wins: int, losses: int) -> int:
    """Orders in which every prefix leaves the true wins and the true losses possible."""
    alive = {(0, 0): 1}
    for seen in range(1, planned + 1):
        following: Counter[tuple[int, int]] = Counter()
        for (won, lost), orders in alive.items():
            for state in ((won + 1, lost), (won, lost + 1), (won, lost)):
                following[state] += orders
        alive = {
            (won, lost): orders
            for (won, lost), orders in following.items()
            if seen - won - lost <= planned - wins - losses
            and lowest(planned, seen, won, ALPHA / 2) <= wins <= highest(planned, seen, won, ALPHA / 2)
            and lowest(planned, seen, lost, ALPHA / 2) <= losses <= highest(planned, seen, lost, ALPHA / 2)
        }
    return alive.get((wins, losses), 0)


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


@pytest.mark.parametrize(("differing", "told_apart"), [(6, False), (7, True)])
def test_two_agents_are_told_apart_from_seven_tasks_that_differ_one_way(
    differing: int, told_apart: bool
) -> None:
    """Ranks at the end have half of .05, and two directions a half of that: 2^-6 is above, and 2^-7 below."""
    same = [PASSED, FAILED] * 3
    result = places_at_end(
        {"a": tasks(*same, *[PASSED] * differing), "b": tasks(*same, *[FAILED] * differing)}
    )
    assert result == (TOLD_APART if told_apart else NOT_TOLD_APART)


def test_an_unknown_trial_counts_against_both_claims() -> None:
    """Seven sure losses with one task that may yet be a win: p = 9/256 = .035."""
    agents = {"a": tasks(*[PASSED] * 7, FAILED), "b": tasks(*[FAILED] * 7, UNKNOWN)}
    assert places_at_end(agents) == {"a": (1, 2), "b": (1, 2)}
    agents["b"]["t7"] = [FAILED]
    assert places_at_end(agents) == {"a": (1, 1), "b": (2, 2)}


def test_agents_without_a_common_task_are_never_told_apart() -> None:
    quarantined = {"a": {f"a{n}": [PASSED] for n in range(20)}, "b": {f"b{n}": [FAILED] for n in range(20)}}
    assert places_at_end(quarantined) == {"a": (1, 2), "b": (1, 2)}
    assert places_at_end({}) == {}
    assert places_at_end({"a": tasks(PASSED)}) == {"a": (1, 1)}


TOLD_APART, NOT_TOLD_APART = {"a": (1, 1), "b": (2, 2)}, {"a": (1, 2), "b": (1, 2)}


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
