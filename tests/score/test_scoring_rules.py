"""Grading profiles (R12, R16, S2, S5, S17)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score import UnknownProfile, grading_profile
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("median", "specified", "later"),
    [
        (math.inf, "A", "S"),
        (1.5, "A", "S"),
        (1.0, "A", "S"),
        (0.95, "A", "A"),
        (math.nextafter(0.95, 0), "B", "A"),
        (0.85, "B", "A"),
        (0.8, "C", "A"),
        (math.nextafter(0.75, 0), "D", "B"),
        (0.65, "D", "B"),
        (0.4, "F", "C"),
        (math.nextafter(0.4, 0), "F", "D"),
        (0.2, "F", "D"),
        (math.nextafter(0.2, 0), "F", "F"),
        (-math.inf, "F", "F"),
        (math.nan, "F", "F"),
        (None, None, None),
    ],
)
def test_lower_bounds_are_inclusive_and_exact(median: float | None, specified: str, later: str) -> None:
    assert grading_profile("specified").grade(median) == specified
    assert grading_profile("scylla-2026").grade(median) == later


def test_no_name_is_the_specified_profile() -> None:
    assert grading_profile(None) is grading_profile("specified")
    assert grading_profile(None).ddof == 0


def test_the_later_profile_takes_the_variance_of_a_sample() -> None:
    assert grading_profile("scylla-2026").ddof == 1


def test_weights_move_the_composite() -> None:
    # (1.0 * 0.7 + 0.5 * 0.3) / 1.0
    assert grading_profile("specified@0.7:0.3").composite(1.0, 0.5) == pytest.approx(0.85, rel=1e-15)
    assert grading_profile("specified@1:0").composite(1.0, 0.2) == 1.0
    assert grading_profile("specified@0:1").composite(1.0, 0.2) == 0.2


def test_no_weight_at_all_makes_every_composite_zero() -> None:
    assert grading_profile("specified@0:0").composite(1.0, 1.0) == 0.0


@pytest.mark.parametrize("name", ["specified@0.5:0.5", "specified@1:1", "specified@2.0:2"])
def test_equal_weights_are_the_default_under_any_spelling(name: str) -> None:
    assert grading_profile(name) == grading_profile("specified")


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("specified@0.70:.3", "specified@0.7:0.3"),
        ("scylla-2026@2.0:1", "scylla-2026@2:1"),
        ("specified@1e-07:1", "specified@1e-07:1"),
        ("specified@00:1", "specified@0:1"),
    ],
)
def test_weights_have_one_canonical_spelling(name: str, canonical: str) -> None:
    assert grading_profile(name).name == canonical
    assert grading_profile(canonical) == grading_profile(name)


weights = st.floats(0, 1e6)


@examples(50)
@given(weights, weights)
def test_the_canonical_name_reads_back_as_the_same_profile(pass_weight: float, impl_weight: float) -> None:
    profile = grading_profile(f"specified@{pass_weight!r}:{impl_weight!r}")
    assert grading_profile(profile.name) == profile


@examples(50)
@given(weights, weights, st.sampled_from([0.0, 1.0]), st.floats(0, 1))
def test_a_composite_of_rates_is_itself_within_0_and_1(
    p: float, i: float, passed: float, impl: float
) -> None:
    composite = grading_profile(f"specified@{p!r}:{i!r}").composite(passed, impl)
    assert 0.0 <= composite <= math.nextafter(1.0, 2)


@pytest.mark.parametrize(
    "name",
    [
        "", "Specified", " specified", "specified ", "strict", "specified@", "specified@1", "specified@1:",
        "specified@-1:2", "specified@nan:1", "specified@inf:1", "specified@1:2:3", "specified@1_0:1",
        "specified@1:2@1:2", "specified@٣:1", "specified@1e7:1", "specified@0.7:0.3\n",
    ],
)  # fmt: skip
def test_another_name_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(UnknownProfile, match=r"allowed: specified or scylla-2026, optionally .*@PASS:IMPL"):
        grading_profile(name)


def test_an_unknown_profile_is_a_value_error() -> None:
    assert issubclass(UnknownProfile, ValueError)
