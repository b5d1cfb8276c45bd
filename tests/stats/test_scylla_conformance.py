"""ProjectScylla's own answers for lists of values, and the rulings where ours differ."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import pytest

from streamer.stats import Distribution, json_number
from tests.support.data import shared_data

ROUNDING = 1e-8
"""Relative: their two-pass floats against our exact sums, on values that agree to seven digits."""


ROUNDED_MODES = {"stat-mode_rounds_to_6_places", "stat-mode_rounding_half_even"}
"""Cases whose values are all different: ProjectScylla rounds to 6 decimals first (S4), we do not (R15)."""


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
        elif name == "mode" and case["id"] in ROUNDED_MODES:
            assert ours[name] == min(map(plain, case["values"])) != value, (case["id"], name)
        elif name in {"mean", "std_dev", "variance"} and isfinite(value):
            assert ours[name] == pytest.approx(value, rel=ROUNDING, abs=0), (case["id"], name)
        else:
            assert ours[name] == json_number(value), (case["id"], name)


def test_all_cases_agree_except_that_of_nothing_they_say_zero_and_we_say_unknown() -> None:
    checked = 0
    for case in cases():
        if case["values"]:
            agree(case)
            checked += 1
        else:
            assert set(case["expected"].values()) == {0}
            assert set(Distribution().summary().values()) == {0, None}
    assert checked == 31
