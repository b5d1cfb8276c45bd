"""Values that several distributions share count as if each had been given them one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.canonical import canonical_json
from streamer.stats.distribution import Distribution, Shares
from streamer.stats.held import Values
from tests.stats import oracles
from tests.support.examples import examples

numbers = st.one_of(st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("-inf")]), st.floats())
portions = st.lists(st.lists(numbers, min_size=1, max_size=90), max_size=4)


@examples(150)
@given(portions, portions)
def test_shared_values_count_in_every_distribution_and_can_be_taken_back(
    first: list[list[float]], second: list[list[float]]
) -> None:
    shared = [Values(values) for values in first]
    one, other = Distribution(), Distribution()
    for values in second:
        other.extend(values)
    for values in shared:
        one.extend(values)
        other.extend(values)
    if shared:
        together = Distribution()
        together.extend(Values.together(shared))
        assert together.summary() == one.summary()
    everything = [value for values in first + second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(everything))
    for values in shared:
        other.withdraw(values)
    left = [value for values in second for value in values]
    assert canonical_json(other.summary()) == canonical_json(oracles.distribution(left))
    assert other.nans == sum(value != value for value in left)


@examples(100)
@given(st.lists(st.sampled_from([0.0, 1.0]), max_size=70), st.integers(0, 1))
def test_shares_say_what_a_distribution_of_the_same_values_says(values: list[float], ddof: int) -> None:
    shares, distribution = Shares(), Distribution()
    shares.extend(Values(values))
    distribution.extend(values)
    assert canonical_json(shares.summary(ddof)) == canonical_json(distribution.summary(ddof))
    assert (shares.median(), shares.mean(), shares.total(), shares.count) == (
        distribution.median(),
        distribution.mean(),
        distribution.total(),
        distribution.count,
    )
