"""Errors and intervals that take the tasks as a sample: published values, inspect_ai's own, and the edges."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score import grading_profile
from streamer.statistics.ability import (
    Attempted,
    Clusters,
    ErrorParts,
    PassAtK,
    Reach,
    Repeats,
    cannot_be_overtaken,
    decided,
    judge_error,
    mean_interval,
    median,
    pass_hat_k,
    pass_rate,
    rate_interval,
    reachable_pass_at_k,
    repeats,
    sizes,
)
from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import StatsError, student_t
from tests.statistics import oracles
from tests.support.examples import examples

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "inspect_ai.json").read_text("utf-8"))
Tasks = list[list[float]]

OUTCOMES = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=20)


def counted(tasks: list[list[Any]]) -> list[tuple[int, int, int]]:
    """(attempts, passes, tasks that have so many)."""
    counts = Counter((len(outcomes), int(sum(outcomes))) for outcomes in tasks)
    return [(n, c, times) for (n, c), times in counts.items()]


@pytest.mark.parametrize("case", GOLDEN["rates"], ids=range(len(GOLDEN["rates"])))
def test_error_and_interval_of_a_rate_are_those_of_inspect_ai(case: dict[str, Any]) -> None:
    counts = Clusters.of_counts(counted(case["tasks"]))
    assert counts.standard_error() == pytest.approx(case["standard_error"], rel=1e-13, abs=1e-15)
    for level, ends in case["intervals"].items():
        assert rate_interval(counts, 1 - Fraction(level)) == pytest.approx(ends, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("case", GOLDEN["means"], ids=range(len(GOLDEN["means"])))
def test_error_and_interval_of_a_mean_are_those_of_inspect_ai(case: dict[str, Any]) -> None:
    sums = [(len(values), sum(map(Fraction, values), Fraction())) for values in case["tasks"]]
    values = Clusters.of_sums(sums)
    assert values.standard_error() == pytest.approx(case["standard_error"], rel=1e-13)
    for level, ends in case["intervals"].items():
        assert mean_interval(values, 1 - Fraction(level)) == pytest.approx(ends, rel=1e-12)


def test_where_all_passed_each_task_is_worth_one_trial_and_where_none_did_it_is_the_mirror_image() -> None:
    """inspect_ai takes all 50, and begins at .907."""
    none, every = (rate_interval(Clusters.of_counts([(5, c, 10)])) for c in (0, 5))
    assert none
    assert every
    square = Fraction(student_t(Fraction(1, 20), 9)) ** 2
    assert every == (float(10 / (10 + square)), 1.0)
    assert f"{every.low:.3f}" == "0.661"
    assert (none.low, none.high) == (0.0, pytest.approx(1 - every.low, rel=1e-15))


@pytest.mark.parametrize("counts", [[], [(5, 3, 1)], [(0, 0, 3)], [(0, 0, 3), (4, 2, 1)]])
def test_with_fewer_than_two_tasks_there_is_no_error_nor_interval(counts: list[tuple[int, int, int]]) -> None:
    result = Clusters.of_counts(counts)
    assert (result.standard_error(), rate_interval(result), mean_interval(result)) == (None, None, None)


def test_the_mean_of_nothing_is_unknown_and_a_sum_that_is_not_finite_is_refused() -> None:
    assert (Clusters().mean(), Clusters.of_counts([(2, 1, 1)]).mean()) == (None, 0.5)
    for total in (math.inf, math.nan):
        with pytest.raises(StatsError, match="finite sums"):
            Clusters.of_sums([(1, 1.0), (2, total)])


@examples(200)
@given(tasks=OUTCOMES)
def test_the_error_is_its_formula_rounded_once_and_the_interval_holds_it(tasks: list[list[bool]]) -> None:
    n, groups = sum(map(len, tasks)), len(tasks)
    p = Fraction(sum(map(sum, tasks)), n)
    spread = sum(((sum(task) - len(task) * p) ** 2 for task in tasks), Fraction())
    clusters = Clusters.of_counts(counted(tasks))
    result, interval, mean = clusters.standard_error(), rate_interval(clusters), clusters.mean()
    assert interval is None or 0.0 <= interval.low <= (mean or 0.0) <= interval.high <= 1.0
    if groups < 2:
        assert result is None
        return
    exact = Fraction(groups, groups - 1) * spread / n**2
    assert result is not None
    below, above = (Fraction(math.nextafter(result, end)) for end in (-math.inf, math.inf))
    middle = Fraction(result)
    assert result == 0 == exact or ((below + middle) / 2) ** 2 <= exact <= ((middle + above) / 2) ** 2


@examples(100)
@given(tasks=OUTCOMES, data=st.data())
def test_counts_and_sums_of_ones_and_zeros_are_the_same(tasks: list[list[bool]], data: st.DataObject) -> None:
    other = data.draw(st.permutations(tasks))
    sums = [(len(task), float(sum(task))) for task in other]
    assert Clusters.of_sums(sums) == Clusters.of_counts(counted(tasks))
    assert repeats(counted(tasks)) == repeats(counted(other))


def exactly(stored: Clusters) -> tuple[Fraction | int, ...]:
    """What clusters hold, whatever their unit."""
    sums = Fraction(stored.total, stored.unit), Fraction(stored.products, stored.unit)
    return stored.tasks, stored.trials, stored.sizes, *sums, Fraction(stored.squares, stored.unit**2)


VALUES = st.lists(st.tuples(st.integers(0, 4), st.floats(-1e300, 1e300)), max_size=12)


@examples(200)
@given(values=VALUES)
def test_values_are_summed_by_task_exactly_in_any_order(values: list[tuple[int, float]]) -> None:
    tasks: dict[int, list[Fraction]] = {}
    for task, value in values:
        tasks.setdefault(task, []).append(Fraction(value))
    result = Clusters.of_values([task for task, _ in values], [value for _, value in values])
    sums = [(len(stored), sum(stored, Fraction())) for stored in tasks.values()]
    assert exactly(result) == exactly(Clusters.of_sums(sums))
    assert exactly(result)[-1] == sum((total**2 for _, total in sums), Fraction())


def by_hand(tasks: list[list[bool]]) -> Repeats | None:
    covered = [task for task in tasks if len(task) > 1]
    if not covered:
        return None
    spread = flips = disagreement = 0.0
    for task in covered:
        n, p = len(task), sum(task) / len(task)
        spread += n * n * p * (1 - p) / (n - 1)
        flips += len(set(task)) > 1
        pairs = [(a, b) for i, a in enumerate(task) for j, b in enumerate(task) if i != j]
        disagreement += sum(a != b for a, b in pairs) / len(pairs)
    g, n = len(covered), sum(map(len, covered))
    return Repeats(math.sqrt(spread) / n, g, flips / g, disagreement / g)


@examples(200)
@given(tasks=OUTCOMES)
def test_repeats_are_counted_pair_by_pair(tasks: list[list[bool]]) -> None:
    expected = by_hand(tasks)
    assert repeats(counted(tasks)) == (expected and pytest.approx(expected, rel=1e-12))


JUDGED = st.tuples(st.integers(0, 3), st.lists(st.floats(0, 1, width=16), max_size=3))
"""A task, and the scores that judges gave a trial of it; the last one counts, without any 0.5."""


def judged_trials(trials: list[tuple[int, list[float]]]) -> list[tuple[int, float, list[float]]]:
    return [(task, [0.5, *scores][-1], scores) for task, scores in trials]


@examples(200)
@given(trials=st.lists(JUDGED, min_size=2), data=st.data())
def test_the_part_of_judges_is_in_that_of_repeats_in_any_order(
    trials: list[tuple[int, list[float]]], data: st.DataObject
) -> None:
    listed = judged_trials(trials)
    result = judge_error(listed)
    shuffled = data.draw(st.permutations(listed))
    assert result == judge_error([(task, value, scores[::-1]) for task, value, scores in shuffled])
    if result is None:
        return
    assert result.judged == sum(bool(scores) for _, scores in trials)
    assert (result.judge is None) == (not any(len(scores) > 1 for _, scores in trials))
    assert 0 <= (result.judge or 0) <= (1 if result.repeats is None else result.repeats) <= 1


@examples(100)
@given(trials=st.lists(JUDGED, min_size=2))
def test_a_judge_that_never_differs_brings_nothing(trials: list[tuple[int, list[float]]]) -> None:
    result = judge_error(judged_trials([(task, scores[:1] * 2) for task, scores in trials]))
    assert result is None or result.judge == 0


@examples(100)
@given(tasks=OUTCOMES)
def test_repeats_of_judged_passes_are_those_of_their_counts(tasks: list[list[bool]]) -> None:
    trials = [(task, float(passed), [1.0]) for task, of in enumerate(tasks) for passed in of]
    result, counts = judge_error(trials), counted(tasks)
    if result is None:
        return
    assert result.standard_error == Clusters.of_counts(counts).standard_error()
    told = repeats(counts)
    if result.repeats is None or told is None:
        assert any(len(of) == 1 for of in tasks)
    else:
        expected = min(1.0, told.standard_error**2 / result.standard_error**2)
        assert result.repeats == pytest.approx(expected)


@pytest.mark.parametrize(
    ("counts", "published"),
    [
        ([(4, 0, 14), (4, 1, 12), (4, 2, 10), (4, 3, 4), (4, 4, 10)], [0.420, 0.273, 0.220, 0.200]),
        ([(4, 0, 22), (4, 1, 18), (4, 2, 9), (4, 3, 22), (4, 4, 44)], [0.604, 0.491, 0.430, 0.383]),
    ],
    ids=["gpt-4o airline", "gpt-4o retail"],
)
def test_pass_hat_k_is_as_tau_bench_published(
    counts: list[tuple[int, int, int]], published: list[float]
) -> None:
    """sierra-research/tau-bench#57. Passes by task: of the published trials (airline); the only numbers
    that agree with all four values (retail)."""
    result = [pass_hat_k(k, counts) for k in (1, 2, 3, 4)]
    assert [round(value, 3) for value, _ in result if value is not None] == published
    assert {covered for _, covered in result} == {sum(tasks for _, _, tasks in counts)}


# -----------------------------------------------------------------------------
# Hard bounds: every way in which the missing trials can end stays between them, and both ends are
# reached.


SHARES = st.lists(st.floats(0.0, 1.0), max_size=8)


def test_missing_trials_all_fail_or_all_pass() -> None:
    assert pass_rate(20, 25, 89) == Reach(20 / 89, 64 / 89)
    assert pass_rate(0, 0, 3) == Reach(0.0, 1.0)
    assert pass_rate(38, 51, 89) == Reach(38 / 89, 38 / 89)


def ends_of(
    known: Sequence[float], missing: int, number: Callable[[Sequence[float]], float | None]
) -> tuple[float, float]:
    """The least and the most that a number can be, with each missing value at an end."""
    every = [number([*known, *filled]) for filled in product([0.0, 1.0], repeat=missing)]
    result = [value for value in every if value is not None]
    return min(result), max(result)


@examples(200)
@given(known=SHARES, missing=st.integers(0, 4))
def test_the_ends_of_the_median_are_those_of_all_ways_to_end(known: list[float], missing: int) -> None:
    if not known and not missing:
        return
    planned = len(known) + missing
    assert median(sorted(known), planned) == ends_of(
        known, missing, lambda values: Distribution.of(values).median()
    )


def test_a_known_value_beyond_0_and_1_keeps_its_rank() -> None:
    assert median([-1.0, 2.0], planned=3) == Reach(0.0, 1.0)
    assert median([1.5, 2.0], planned=3) == Reach(1.5, 1.5)


PER_TASK = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=3)
"""(failed, passed, missing) of each task."""


@examples(100)
@given(tasks=PER_TASK)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_ends_of_pass_at_k_are_those_of_all_ways_to_end(k: int, tasks: list[tuple[int, ...]]) -> None:
    missing = [task for task, (_, _, left) in enumerate(tasks) for _ in range(left)]
    result: list[Any] = []
    for ways in product([False, True], repeat=len(missing)):
        attempts = PassAtK()
        for task, (failed, passed, _) in enumerate(tasks):
            attempts.merge(PassAtK.of([(task, False)] * failed + [(task, True)] * passed))
        attempts.merge(PassAtK.of(zip(missing, ways, strict=True)))
        result.append(attempts.summary(planned_attempts=4).get(str(k), {}).get("value"))
    planned = [Attempted(failed + passed, passed, left) for failed, passed, left in tasks]
    reach = reachable_pass_at_k(k, planned)
    if reach is None:
        assert set(result) == {None}
    else:
        assert (reach.low, reach.high) == (min(result), max(result))


def test_tasks_that_are_alike_are_counted_together() -> None:
    apart = [Attempted(1, 1, 1), Attempted(1, 1, 1), Attempted(0, 0, 2)]
    together = [Attempted(1, 1, 1, tasks=2), Attempted(0, 0, 2)]
    assert reachable_pass_at_k(2, apart) == reachable_pass_at_k(2, together)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: pass_rate(2, 1, 2),
        lambda: pass_rate(0, 0, 0),
        lambda: median([0.5, 0.5], 1),
        lambda: median([], 0),
    ],
)
def test_a_plan_that_is_smaller_than_what_is_known_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(StatsError, match="a plan of at least"):
        ask()


def test_a_grade_is_decided_when_both_ends_have_it() -> None:
    reaches = [Reach(0.85, 0.94), Reach(0.84, 0.94), pass_rate(19, 0, 20), pass_rate(18, 0, 20)]
    grade = grading_profile("specified").grade
    assert [decided(reach, grade) for reach in reaches] == [True, False, True, False]


def test_only_a_higher_lower_end_cannot_be_overtaken() -> None:
    leader, other = pass_rate(60, 20, 100), pass_rate(30, 41, 100)
    assert (leader.low, other.high) == (0.6, 0.59)
    pairs = (leader, other), (other, leader), (leader, pass_rate(30, 40, 100))
    assert [cannot_be_overtaken(*pair) for pair in pairs] == [True, False, False]


# -----------------------------------------------------------------------------
# pass@k: which k, over which tasks, and whether that is final.


def tried(**tasks: str) -> PassAtK:
    """Tasks by name, their attempts as text: "+" passed, "-" not."""
    return PassAtK.of((task, attempt == "+") for task, attempts in tasks.items() for attempt in attempts)


@pytest.mark.parametrize(
    ("passes", "planned", "expected"),
    [
        (tried(a="+", b="-"), {}, {"1": (0.5, 2, False)}),
        (PassAtK(), {"planned_attempts": 8, "planned_tasks": 3}, {}),
        # k=1: (1/4 + 1/1) / 2; k=2 and 4 over task a alone: 1 - C(3,2)/C(4,2) = 1/2, then 1
        (tried(a="+---", b="+"), {}, {"1": (0.625, 2, False), "2": (0.5, 1, True), "4": (1.0, 1, True)}),
        (tried(a="+", b="-"), {"planned_attempts": 2}, {"1": (0.5, 2, False), "2": (None, 0, True)}),
        (tried(a="+"), {"planned_tasks": 2}, {"1": (1.0, 1, True)}),
        (tried(a="+", b="+", c="+"), {"planned_tasks": 2}, {"1": (1.0, 3, False)}),
    ],
    ids=["one attempt", "nothing", "each task weighs the same", "a k of no task", "missing", "beyond"],
)
def test_pass_at_k_by_hand(
    passes: PassAtK, planned: dict[str, int], expected: dict[str, tuple[float | None, int, bool]]
) -> None:
    summary = passes.summary(**planned)
    assert {k: tuple(of.values()) for k, of in summary.items()} == expected
    assert all(of.keys() == {"value", "tasks_covered", "partial"} for of in summary.values())


def test_k_goes_up_to_the_larger_of_plan_and_sight() -> None:
    for attempts, planned in ((5, 0), (1, 5), (5, 2)):
        assert list(tried(a="+" * attempts).summary(planned)) == ["1", "2", "4", "5"]
    assert (sizes(20), sizes(3)) == ([1, 2, 4, 5, 8, 10, 16], [1, 2])


def test_a_task_without_attempts_left_is_gone() -> None:
    stored = tried(a="+", b="-")
    stored.remove("a", True)
    assert (stored.tasks, stored.summary()["1"]["value"]) == (1, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_unequal_attempts_are_averaged_exactly(seed: int) -> None:
    choice = random.Random(seed)
    attempts = [(f"t{choice.randrange(9)}", choice.random() < 0.3) for _ in range(150)]
    assert PassAtK.of(attempts).summary(40, 12) == oracles.pass_at_k(attempts, 40, 12)


# -----------------------------------------------------------------------------
# What an error is made of, and what a larger run makes of it.


def parts_of(tasks: list[list[bool]]) -> tuple[ErrorParts, float]:
    """The parts, and the error itself."""
    counts = counted(tasks)
    error, repeat = Clusters.of_counts(counts).standard_error(), repeats(counts)
    assert error is not None
    assert repeat is not None
    return ErrorParts.of(error, repeat.standard_error), error


@examples(100)
@given(
    st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=2))
)
def test_the_parts_of_an_error_are_those_of_an_analysis_of_variance(tasks: list[list[bool]]) -> None:
    """One way, with equal attempts: the mean squares between and within tasks (Searle 1992, section 3.5)."""
    attempts, rates = len(tasks[0]), [fmean(task) for task in tasks]
    between = attempts * variance(rates)
    within = fmean(variance(map(float, task)) for task in tasks)
    of_tasks = max(0.0, (between - within) / attempts)
    parts, error = parts_of(tasks)
    assert parts.tasks == pytest.approx(of_tasks / len(tasks), abs=1e-12)
    assert sum(parts) == pytest.approx(error**2, abs=1e-12)
    if between >= within:
        assert parts.repeats == pytest.approx(within / attempts / len(tasks), abs=1e-12)


@pytest.mark.parametrize(
    ("attempts", "more_attempts", "more_tasks"), [(2, 1, 0), (2, 6, 0), (3, 0, 20), (5, 0, 60)]
)
def test_a_larger_run_has_the_foretold_error(attempts: int, more_attempts: int, more_tasks: int) -> None:
    """Simulated: the pass rates of larger runs of the same kind vary as smaller runs foretell on average."""
    chance, count = random.Random(7), 40

    def a_run(tasks: int, attempts: int) -> list[list[bool]]:
        difficulties = [chance.betavariate(0.8, 0.8) for _ in range(tasks)]
        return [[chance.random() < p for _ in range(attempts)] for p in difficulties]

    foretold = []
    for _ in range(300):
        parts, _ = parts_of(a_run(count, attempts))
        trials = count * attempts
        error = parts.error_with(count, trials, attempts=more_attempts, more_tasks=more_tasks)
        foretold.append(error**2)
    rates = [
        fmean(passed for task in a_run(count + more_tasks, attempts + more_attempts) for passed in task)
        for _ in range(1_500)
    ]
    assert fmean(foretold) == pytest.approx(variance(rates), rel=0.12)
