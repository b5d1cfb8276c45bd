"""Errors and intervals that take the tasks as a sample: published values, inspect_ai's own, and the edges."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.ability import Clusters, Repeats, mean_interval, pass_hat_k, rate_interval, repeats
from streamer.statistics.exact import StatsError, student_t
from tests.support.examples import examples

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "inspect_ai.json").read_text("utf-8"))
Tasks = list[list[float]]

OUTCOMES = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=20)


def counted(tasks: list[list[Any]]) -> list[tuple[int, int, int]]:
    """(attempts, passes, tasks that have so many)."""
    counts = Counter((len(outcomes), int(sum(outcomes))) for outcomes in tasks)
    return [(n, c, times) for (n, c), times in counts.items()]


def alpha_of(level: str) -> Fraction:
    return 1 - Fraction(level)


def test_the_golden_values_name_the_version_that_made_them() -> None:
    assert GOLDEN["inspect_ai"] == "0.3.285"


@pytest.mark.parametrize("case", GOLDEN["rates"], ids=range(len(GOLDEN["rates"])))
def test_error_and_interval_of_a_rate_are_those_of_inspect_ai(case: dict[str, Any]) -> None:
    counts = Clusters.of_counts(counted(case["tasks"]))
    assert counts.standard_error() == pytest.approx(case["standard_error"], rel=1e-13, abs=1e-15)
    for level, ends in case["intervals"].items():
        assert rate_interval(counts, alpha_of(level)) == pytest.approx(ends, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("case", GOLDEN["means"], ids=range(len(GOLDEN["means"])))
def test_error_and_interval_of_a_mean_are_those_of_inspect_ai(case: dict[str, Any]) -> None:
    sums = [(len(values), sum(map(Fraction, values), Fraction())) for values in case["tasks"]]
    values = Clusters.of_sums(sums)
    assert values.standard_error() == pytest.approx(case["standard_error"], rel=1e-13)
    for level, ends in case["intervals"].items():
        assert mean_interval(values, alpha_of(level)) == pytest.approx(ends, rel=1e-12)


def test_where_all_passed_each_task_is_worth_one_trial() -> None:
    """inspect_ai takes all 50, and begins at .907."""
    found = rate_interval(Clusters.of_counts([(5, 5, 10)]))
    square = Fraction(student_t(Fraction(1, 20), 9)) ** 2
    assert found == (float(10 / (10 + square)), 1.0)
    assert f"{found[0]:.3f}" == "0.661"


def test_where_none_passed_it_is_the_mirror_image() -> None:
    none, every = (rate_interval(Clusters.of_counts([(5, c, 10)])) for c in (0, 5))
    assert none
    assert every
    assert none.low == 0.0
    assert none.high == pytest.approx(1 - every.low, rel=1e-15)


@pytest.mark.parametrize("counts", [[], [(5, 3, 1)], [(0, 0, 3)], [(0, 0, 3), (4, 2, 1)]])
def test_with_fewer_than_two_tasks_there_is_no_error_and_no_interval(
    counts: list[tuple[int, int, int]],
) -> None:
    found = Clusters.of_counts(counts)
    assert found.standard_error() is None
    assert rate_interval(found) is None
    assert mean_interval(found) is None


def test_the_mean_of_nothing_is_unknown() -> None:
    assert (Clusters().mean(), Clusters.of_counts([(2, 1, 1)]).mean()) == (None, 0.5)


def test_a_sum_that_is_not_finite_is_refused() -> None:
    for total in (math.inf, math.nan):
        with pytest.raises(StatsError, match="finite sums"):
            Clusters.of_sums([(1, 1.0), (2, total)])


@examples(200)
@given(tasks=OUTCOMES)
def test_the_error_is_its_formula_rounded_once(tasks: list[list[bool]]) -> None:
    n, groups = sum(map(len, tasks)), len(tasks)
    p = Fraction(sum(map(sum, tasks)), n)
    spread = sum(((sum(task) - len(task) * p) ** 2 for task in tasks), Fraction())
    found = Clusters.of_counts(counted(tasks)).standard_error()
    if groups < 2:
        assert found is None
        return
    exact = Fraction(groups, groups - 1) * spread / n**2
    assert found is not None
    below, above = (Fraction(math.nextafter(found, end)) for end in (-math.inf, math.inf))
    middle = Fraction(found)
    assert found == 0 == exact or ((below + middle) / 2) ** 2 <= exact <= ((middle + above) / 2) ** 2


@examples(100)
@given(tasks=OUTCOMES, data=st.data())
def test_the_order_of_the_tasks_changes_nothing(tasks: list[list[bool]], data: st.DataObject) -> None:
    other = data.draw(st.permutations(tasks))
    assert Clusters.of_counts(counted(tasks)) == Clusters.of_counts(counted(other))
    assert repeats(counted(tasks)) == repeats(counted(other))


@examples(100)
@given(tasks=OUTCOMES)
def test_counts_and_sums_of_ones_and_zeros_are_the_same(tasks: list[list[bool]]) -> None:
    sums = [(len(task), float(sum(task))) for task in tasks]
    assert Clusters.of_sums(sums) == Clusters.of_counts(counted(tasks))


def exactly(held: Clusters) -> tuple[Fraction | int, ...]:
    """What clusters hold, whatever their unit."""
    sums = Fraction(held.total, held.unit), Fraction(held.products, held.unit)
    return held.tasks, held.trials, held.sizes, *sums, Fraction(held.squares, held.unit**2)


VALUES = st.lists(st.tuples(st.integers(0, 4), st.floats(-1e300, 1e300)), max_size=12)


@examples(200)
@given(values=VALUES)
def test_values_are_summed_by_task_exactly_in_any_order(values: list[tuple[int, float]]) -> None:
    tasks: dict[int, list[Fraction]] = {}
    for task, value in values:
        tasks.setdefault(task, []).append(Fraction(value))
    found = Clusters.of_values([task for task, _ in values], [value for _, value in values])
    sums = [(len(held), sum(held, Fraction())) for held in tasks.values()]
    assert exactly(found) == exactly(Clusters.of_sums(sums))
    assert exactly(found)[-1] == sum((total**2 for _, total in sums), Fraction())


@examples(200)
@given(tasks=OUTCOMES)
def test_an_interval_holds_its_rate_and_stays_between_0_and_1(tasks: list[list[bool]]) -> None:
    counts = Clusters.of_counts(counted(tasks))
    found, mean = rate_interval(counts), counts.mean()
    if found:
        assert mean is not None
        assert 0.0 <= found.low <= mean <= found.high <= 1.0


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
    found, expected = repeats(counted(tasks)), by_hand(tasks)
    if expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("counts", "published"),
    [
        ([(4, 0, 14), (4, 1, 12), (4, 2, 10), (4, 3, 4), (4, 4, 10)], [0.420, 0.273, 0.220, 0.200]),
        ([(4, 0, 22), (4, 1, 18), (4, 2, 9), (4, 3, 22), (4, 4, 44)], [0.604, 0.491, 0.430, 0.383]),
    ],
    ids=["gpt-4o airline", "gpt-4o retail"],
)
def test_pass_hat_k_is_what_tau_bench_published(
    counts: list[tuple[int, int, int]], published: list[float]
) -> None:
    """sierra-research/tau-bench#57. Passes by task: of the published trials (airline); the only numbers
    that agree with all four values (retail)."""
    found = [pass_hat_k(k, counts) for k in (1, 2, 3, 4)]
    assert [round(value, 3) for value, _ in found if value is not None] == published
    assert {covered for _, covered in found} == {sum(tasks for _, _, tasks in counts)}
