"""Laws that every statistic of the package keeps; a walk over the package leaves none out."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamer.statistics
from streamer.schemas.wire import canonical_json
from streamer.statistics.ability import PassAtK
from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import ExactSum, StatsError
from tests.stats import oracles
from tests.support.examples import examples

VERBS = ("add", "remove", "merge", "summary")

HOSTILE = [0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324]
HOSTILE += [-5e-324, 1e-320, 2.2250738585072014e-308, 0.1, 0.2, 0.30000000000000004, 5e-7, 1.5e-6, 2.5e-6]
HOSTILE += [0.1234561, 0.1234564, 1e16, 9007199254740991.0, 8796093.5, 8796093.0000005]
INFINITE = [float("inf"), float("-inf")]

anything_finite = st.floats(allow_nan=False, allow_infinity=False)
finite = st.one_of(st.sampled_from(HOSTILE), st.floats(0, 1), st.integers(0, 3).map(float), anything_finite)
with_infinite = st.one_of(finite, st.sampled_from(INFINITE))
attempts = st.tuples(st.sampled_from("abcd"), st.booleans())


@dataclass(frozen=True)
class Case:
    """A statistic, what goes in, and what all of it together must give."""

    statistic: type[Any]
    item: st.SearchStrategy[Any]
    oracle: Callable[[list[Any]], dict[str, Any]]
    stranger: Any
    """An item that a statistic which never had it cannot give back."""
    known: Any = 1.5
    """Another item."""

    def of(self, items: Iterable[Any]) -> Any:
        result = self.statistic()
        for item in items:
            self.add(result, item)
        return result

    def add(self, statistic: Any, item: Any) -> None:
        statistic.add(*item) if isinstance(item, tuple) else statistic.add(item)

    def remove(self, statistic: Any, item: Any) -> None:
        statistic.remove(*item) if isinstance(item, tuple) else statistic.remove(item)


CASES = [
    Case(ExactSum, finite, oracles.sums, 3.25),
    Case(Distribution, st.one_of(with_infinite, st.just(float("nan"))), oracles.distribution, 3.25),
    Case(PassAtK, attempts, oracles.pass_at_k, ("a", True), ("a", False)),
]

every_statistic = pytest.mark.parametrize("case", CASES, ids=lambda case: case.statistic.__name__)
thorough = examples(120)


def says(statistic: Any) -> bytes:
    """The summary as it is published, in bytes: what must be equal."""
    return canonical_json(statistic.summary())


def expected(case: Case, items: list[Any]) -> bytes:
    return canonical_json(case.oracle(items))


def statistics_of_the_package() -> set[type[Any]]:
    found: set[type[Any]] = set()
    for module in pkgutil.iter_modules(streamer.statistics.__path__, "streamer.statistics."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if member.__module__ == module.name and any(hasattr(member, verb) for verb in VERBS):
                found.add(member)
    return found


def test_every_statistic_of_the_package_is_under_these_laws() -> None:
    assert statistics_of_the_package() == {case.statistic for case in CASES}


@every_statistic
def test_a_statistic_has_the_four_verbs_and_keeps_no_dict(case: Case) -> None:
    assert all(callable(getattr(case.statistic, verb)) for verb in VERBS)
    assert not hasattr(case.statistic(), "__dict__")


@every_statistic
def test_of_nothing_it_says_what_the_oracle_says_of_nothing(case: Case) -> None:
    assert says(case.statistic()) == expected(case, [])


@every_statistic
def test_after_every_single_change_it_equals_the_batch_computation(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=12), st.data())
    def law(items: list[Any], data: st.DataObject) -> None:
        statistic = case.statistic()
        for end, item in enumerate(items, start=1):
            case.add(statistic, item)
            assert says(statistic) == expected(case, items[:end])
        left = list(items)
        for item in data.draw(st.permutations(items)):
            case.remove(statistic, item)
            left.pop(next(i for i, other in enumerate(left) if repr(other) == repr(item)))
            assert says(statistic) == expected(case, left)

    law()


@every_statistic
def test_no_order_shows(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=30), st.data())
    def law(items: list[Any], data: st.DataObject) -> None:
        shuffled = data.draw(st.permutations(items))
        assert says(case.of(shuffled)) == says(case.of(items)) == expected(case, items)

    law()


@every_statistic
def test_duplicates_count_as_often_as_they_come(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=10), st.integers(2, 4))
    def law(items: list[Any], times: int) -> None:
        assert says(case.of(items * times)) == expected(case, items * times)

    law()


@every_statistic
def test_what_is_added_and_removed_again_leaves_no_trace(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=15), st.lists(case.item, max_size=15), st.data())
    def law(kept: list[Any], passing: list[Any], data: st.DataObject) -> None:
        statistic = case.of(data.draw(st.permutations(kept + passing)))
        if data.draw(st.booleans()):
            says(statistic)
        for item in data.draw(st.permutations(passing)):
            case.remove(statistic, item)
        assert says(statistic) == expected(case, kept)

    law()


@every_statistic
def test_removing_all_and_adding_again_gives_the_same(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=20))
    def law(items: list[Any]) -> None:
        statistic = case.of(items)
        for item in items:
            case.remove(statistic, item)
        assert says(statistic) == expected(case, [])
        for item in items:
            case.add(statistic, item)
        assert says(statistic) == expected(case, items)

    law()


@every_statistic
def test_parts_merge_to_the_whole_and_stay_as_they_are(case: Case) -> None:
    @thorough
    @given(st.lists(st.lists(case.item, max_size=12), min_size=1, max_size=4))
    def law(parts: list[list[Any]]) -> None:
        whole = [item for part in parts for item in part]
        statistics = [case.of(part) for part in parts]
        at_once, one_by_one = case.statistic(), case.statistic()
        at_once.merge(*statistics)
        for statistic in reversed(statistics):
            one_by_one.merge(statistic)
        assert says(at_once) == says(one_by_one) == expected(case, whole)
        assert [says(statistic) for statistic in statistics] == [expected(case, part) for part in parts]
        for item in parts[0]:
            case.remove(at_once, item)
        assert says(at_once) == expected(case, [item for part in parts[1:] for item in part])
        assert says(statistics[0]) == expected(case, parts[0])

    law()


@every_statistic
def test_what_was_merged_can_be_taken_back_at_once(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=14), st.lists(st.lists(case.item, max_size=12), max_size=3))
    def law(kept: list[Any], parts: list[list[Any]]) -> None:
        statistic, statistics = case.of(kept), [case.of(part) for part in parts]
        statistic.merge(*statistics)
        statistic.unmerge(*statistics)
        assert says(statistic) == expected(case, kept)
        for part in statistics:
            statistic.merge(part)
        for part in statistics:
            statistic.unmerge(part)
        assert says(statistic) == expected(case, kept)
        assert [says(part) for part in statistics] == [expected(case, part) for part in parts]

    law()


@every_statistic
def test_taking_back_what_was_never_merged_is_an_error_and_changes_nothing(case: Case) -> None:
    held = case.of([case.known])
    before = says(held)
    for times in (1, 40):
        for strangers in ([case.stranger] * times, [case.known, *[case.stranger] * times], [case.known] * 2):
            with pytest.raises(StatsError, match="does not hold"):
                held.unmerge(case.of(strangers))
            assert says(held) == before


@every_statistic
def test_merged_with_itself_it_counts_twice(case: Case) -> None:
    @thorough
    @given(st.lists(case.item, max_size=12))
    def law(items: list[Any]) -> None:
        statistic = case.of(items)
        statistic.merge(statistic)
        assert says(statistic) == expected(case, items * 2)
        statistic.merge(statistic, statistic)
        assert says(statistic) == expected(case, items * 6)

    law()


@every_statistic
def test_taking_out_what_is_not_there_is_an_error_and_changes_nothing(case: Case) -> None:
    statistic = case.statistic()
    with pytest.raises(StatsError, match=r"does not hold .* remove exactly what was added"):
        case.remove(statistic, case.stranger)
    assert says(statistic) == expected(case, [])
    case.add(statistic, case.known)
    with pytest.raises(StatsError, match="does not hold"):
        case.remove(statistic, case.stranger)
    assert says(statistic) == expected(case, [case.known])
