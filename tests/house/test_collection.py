"""Collecting the tests imports every module of theirs, which must change nothing of the product."""

from __future__ import annotations

import subprocess
import sys

import streamer.schemas.base
from tests.house.repository import ROOT


def constants() -> str:
    """Every constant of the module that tests change in processes of their own."""
    result = vars(streamer.schemas.base)
    return repr({name: _in_order(value) for name, value in sorted(result.items()) if name.isupper()})


def _in_order(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def test_the_constants_are_those_of_a_fresh_process() -> None:
    command = [sys.executable, "-c", f"from {__name__} import constants; print(constants())"]
    fresh = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert fresh.stdout.strip() == constants()
