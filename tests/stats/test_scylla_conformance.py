"""ProjectScylla's own answers for lists of values, and the rulings where ours differ."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import pytest

from streamer.schemas.wire import json_number
from streamer.statistics.distribution import Distribution
from tests.stats.oracles import mode_of
from tests.support.data import shared_data

ROUNDING = 1e-8
"""Relative: their two-pass floats against our exact sums, on values that agree to seven digits."""


def cases() -> list[dict[str, Any]]:
    lines = (shared_data() / "scylla" / "function_cases.jsonl").read_text().splitlines()
    return [case for case in map(json.loads, lines) if case["fn"] == "statistics"]


def plain(value: Any) -> float:
    return float(value["$float"]) if isinstance(value, dict) else float(value)


def agree(case: dict[str, Any]) -> None:
    held = Distribution()
    for value in case["values"]:
        held.add(plain(value))
    ours = {**held.summary(), "variance": json_number(held.variance())}
    theirs = {name: plain(value) for name, value in case["expected"].items()}
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value != value:
            assert ours[name] is None, (case["id"], name)
        elif name == "mode":
            values = [plain(value) for value in case["values"]]
            assert ours[name] == json_number(mode_of(values)), (case["id"], name)
            assert value == round(mode_of([round(v, 6) for v in values]) or 0.0, 6), (case["id"], "S4")
        elif name in {"mean", "std_dev", "variance"} and isfinite(value):
            assert ours[name] == pytest.approx(value, rel=ROUNDING, abs=0), (case["id"], name)
        else:
            assert ours[name] == json_number(value), (case["id"], name)


def test_all_cases_agree_except_that_of_nothing_they_say_zero_and_that_they_round_before_the_mode() -> None:
    checked = 0
    for case in cases():
        if case["values"]:
            agree(case)
            checked += 1
        else:
            assert set(case["expected"].values()) == {0}
            assert set(Distribution().summary().values()) == {0, None}
    assert checked == 31
