"""Task metrics by columns are those pair by pair, to the last bit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.score.formulacode.columns import columns_of
from streamer.score.formulacode.task_metrics import metrics_of_pairs, task_metrics
from tests.score.build import ratio
from tests.support.examples import examples

names = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "a.", "a.b.", "x.y.z."]),
    st.sampled_from(["", "C.", "D.", "c."]),
    st.sampled_from(["f", "g", "time_x"]),
    st.sampled_from(["", "(1)", "(2)", "(n='a')"]),
)
usual = st.one_of(st.floats(1e-6, 1e6), st.floats(5e-324, 1e300), st.sampled_from([1.0, 0.1, 1.7]))


@examples(400)
@given(st.dictionaries(names, st.builds(ratio, usual, usual), min_size=1, max_size=60))
def test_usual_benchmarks_give_the_same_bits_by_columns_and_pair_by_pair(benchmarks: dict[str, Any]) -> None:
    assert columns_of(benchmarks) is not None
    by_columns = task_metrics(benchmarks, fallback=False)
    assert repr(by_columns) == repr(metrics_of_pairs(benchmarks, fallback=False))


@pytest.mark.parametrize("other", [None, 1, True, 0.0, -1.0, float("inf"), float("nan"), "x", [1.0]])
def test_whatever_is_not_usual_is_left_to_the_pairs(other: Any) -> None:
    for entry in (ratio(other, 1.0), ratio(1.0, other), other, {"agent/nop": 1.0}, {"agent_s": 1.0}):
        assert columns_of({"m.f": ratio(1.0, 1.0), "m.g": entry}) is None
    assert columns_of({}) is None


def test_more_benchmarks_than_are_remembered_give_the_same_bits() -> None:
    benchmarks = {f"m{i % 7}.C{i % 31}.f({i})": ratio(1.0 + i / 977, 1.3) for i in range(2_500)}
    assert task_metrics(benchmarks, fallback=False) == metrics_of_pairs(benchmarks, fallback=False)
