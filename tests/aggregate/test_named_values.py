"""The values of named metrics in one group: counted in and out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamer.aggregate.named_values import NamedMetrics, named_values, together
from streamer.stats.errors import StatsError
from streamer.stats.held import Values

SCORES = [SimpleNamespace(metrics=of) for of in ({"a": 1.0, "b": -0.0}, None, {}, {"a": 3.0})]


def test_each_metric_has_the_values_of_the_scores_that_have_it() -> None:
    found = named_values(SCORES)
    assert {name: values.kept for name, values in found.items()} == {"a": [1.0, 3.0], "b": [0.0]}


def test_parts_are_joined_by_name() -> None:
    joined = together([{"a": Values([1.0])}, {}, {"a": Values([2.0]), "b": Values([5.0])}])
    assert {name: list(values.kept) for name, values in joined.items()} == {"a": [1.0, 2.0], "b": [5.0]}


def test_what_is_taken_back_leaves_no_trace() -> None:
    held, values = NamedMetrics(), named_values(SCORES)
    held.count(values, 1)
    held.count({"a": Values([7.0])}, 1)
    assert {name: of.count for name, of in held.items()} == {"a": 3, "b": 1}
    held.count(values, -1)
    assert {name: of.mean() for name, of in held.items()} == {"a": 7.0}


def test_a_value_that_was_never_counted_cannot_be_taken_back() -> None:
    held = NamedMetrics()
    held.count({"a": Values([1.0])}, 1)
    with pytest.raises(StatsError):
        held.count({"a": Values([2.0])}, -1)
