"""Scores of inspect_ai as metrics: which numbers they are, and which are left out."""

from __future__ import annotations

import pytest

from streamer.sources.base import metric_name
from streamer.sources.inspect import read_scores


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *[("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0)],
        *[(True, 1.0), (False, 0.0), (3, 3), (-0.25, -0.25)],
        *[("yes", 1.0), ("True", 1.0), ("No", 0.0), ("2.5", 2.5)],
    ],
)
def test_a_value_is_the_number_that_inspect_counts(value: object, number: float) -> None:
    assert read_scores({"s": {"value": value}}).metrics == {"s": number}


@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_was_not_scored_is_missing_and_not_said(value: object) -> None:
    found = read_scores({"s": {"value": value}, "t": {"value": {"k": value}}})
    assert (found.metrics, found.left_out) == ({}, [])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([1, 2], "a list"),
        ("lovely", "'lovely', which is no number"),
        ("inf", "'inf', which is no number"),
        (float("inf"), "inf, which is no number"),
        (10**400, "1" + "0" * 39 + "..., which is no number"),
        ("x" * 99, "'" + "x" * 39 + "..., which is no number"),
    ],
)
def test_what_is_no_number_is_left_out_and_said(value: object, kind: str) -> None:
    found = read_scores({"s": {"value": value}})
    assert (found.metrics, found.left_out) == ({}, [f"the score 's' is {kind}"])


def test_a_score_that_is_no_object_is_missing() -> None:
    assert read_scores({"s": 1, "t": {}}).metrics == {}


def test_names_that_become_one_keep_the_first() -> None:
    found = read_scores({"a b": {"value": 1}, "a_b": {"value": 2}})
    assert found.metrics == {"a_b": 1}
    assert found.left_out == ["the score 'a_b' has the name 'a_b' of another one"]


def test_of_too_many_scores_the_first_are_kept() -> None:
    found = read_scores({"s": {"value": {str(number): number for number in range(66)}}})
    assert len(found.metrics) == 64
    assert found.left_out == [
        "the score 's/64' is one more than 64",
        "the score 's/65' is one more than 64",
    ]


def test_a_score_without_a_name_is_said() -> None:
    assert read_scores({"": {"value": 1}}).left_out == ["a score has no name"]


def test_long_names_that_differ_stay_different() -> None:
    first, second = metric_name("n" * 99 + "a"), metric_name("n" * 99 + "b")
    assert len(first) == len(second) == 64
    assert first != second
