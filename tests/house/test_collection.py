"""Collecting the tests imports every module of theirs, which must change nothing of the product."""

from __future__ import annotations

import sys

import streamer.schemas.base
from tests.house.repository import ran


def constants() -> str:
    """Every constant of the module that tests change in processes of their own."""
    result = vars(streamer.schemas.base)
    return repr({name: _in_order(value) for name, value in sorted(result.items()) if name.isupper()})


def _in_order(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def test_the_constants_are_those_of_a_fresh_process() -> None:
    fresh = ran(sys.executable, "-c", f"from {__name__} import constants; print(constants())")
    assert fresh.stdout.strip() == constants()
