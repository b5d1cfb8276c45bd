"""Speedups of single benchmarks: valid ratios, and ratios from seconds."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from streamer.score.formulacode.task_metrics import TaskMetrics, task_metrics
from tests.score.build import Json, payload, ratio, score


@pytest.mark.parametrize(
    "value", [None, "1.2", [2.0], {}, 0, 0.0, -1.0, False, -math.inf, math.inf, math.nan]
)
def test_what_is_no_positive_finite_number_is_invalid(value: Any) -> None:
    found = task_metrics({"m.f": ratio(value, 1.0), "m.g": ratio(4.0, 1.0)}, fallback=False)
    assert found == TaskMetrics(4.0, (3.0, 3.0, 3.0, 3.0), 2, 1)


@pytest.mark.parametrize("value", [True, 1, 1e-320, 10**18, 5e-324, sys.float_info.max])
def test_every_positive_finite_number_is_valid(value: Any) -> None:
    found = task_metrics({"m.f": ratio(value, 1.0)}, fallback=False)
    assert found.num_valid_benchmarks == 1
    assert found.task_speedup == pytest.approx(float(value), rel=1e-12)


def test_seconds_become_ratios_over_the_baseline_by_medians_of_the_samples() -> None:
    given_seconds = {"agent_s": [4.0, 1.0, 2.0], "nop_s": [6.0, 2.0], "oracle_s": 1.0}
    assert payload(benchmarks={"m.f": given_seconds})["per_benchmark_speedups"] == {
        "m.f": {"agent/nop": 2.0, "oracle/nop": 4.0, "advantage": -2.0}
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"agent_s": [], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": [1.0, 0.0], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": [1.0, "2"], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": -1.0, "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": 1.0, "oracle_s": 1.0},
        {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": None},
        {"agent_s": 5e-324, "nop_s": 1e308, "oracle_s": 1.0},
    ],
)
def test_seconds_that_give_no_ratio_are_invalid(entry: Json) -> None:
    found = score(benchmarks={"m.f": ratio(2.0, 1.0), "m.g": entry})
    assert (found.num_benchmarks, found.num_valid_benchmarks, found.task_speedup) == (2, 1, 2.0)


def test_a_ratio_that_is_given_wins_over_seconds() -> None:
    entry = ratio(3.0, 1.0) | {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": 1.0}
    assert score(benchmarks={"m.f": entry}).task_speedup == pytest.approx(3.0)
    assert score(benchmarks={"m.f": entry | {"agent/nop": None}}).num_valid_benchmarks == 0
