"""The advantages are those of a plain computation, group by group, to the last bit."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.folding.score.formulacode import benchmark_name, speedups, task_metrics
from tests.score.build import ratio

names = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "a.", "a.b.", "x.y.z."]),
    st.sampled_from(["", "C.", "D.", "c."]),
    st.sampled_from(["f", "g", "time_x"]),
    st.sampled_from(["", "(1)", "(2)", "(n='a')"]),
)
any_ratio = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1.0, 0.1, 1.7, 5e-324, 0.0, -1.0]))


def plainly(benchmarks: dict[str, Any]) -> tuple[float, ...]:
    """Levels 1 to 4 as the specification says it: group, take both geometric means, average (A5, A6)."""
    valid = [one for one in speedups(benchmarks, fallback=False) if one.advantage is not None]
    levels = []
    for depth in (1, 2, 3, 0):
        groups: dict[tuple[str | None, ...], list[tuple[float, float]]] = {}
        for one in valid:
            logs = (math.log(one.agent or 0.0), math.log(one.oracle or 0.0))
            groups.setdefault(benchmark_name(one.name)[:depth], []).append(logs)
        differences = [
            _gmean(agent) - _gmean(oracle)
            for agent, oracle in (zip(*g, strict=True) for g in groups.values())
        ]
        levels.append(math.fsum(differences) / len(differences) if differences else 0.0)
    return tuple(levels)


def _gmean(logs: tuple[float, ...]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(names, st.builds(ratio, any_ratio, any_ratio), max_size=60))
def test_the_levels_are_those_of_a_plain_computation(benchmarks: dict[str, Any]) -> None:
    """Invalid entries among them count in no level (A1)."""
    assert repr(task_metrics(benchmarks, fallback=False).advantages) == repr(plainly(benchmarks))


def test_more_benchmarks_than_are_remembered_give_the_same_bits() -> None:
    benchmarks = {f"m{i % 7}.C{i % 31}.f({i})": ratio(1.0 + i / 977, 1.3) for i in range(2_500)}
    assert task_metrics(benchmarks, fallback=False).advantages == plainly(benchmarks)
