"""Broken reports of SWE-bench and rows of Every Eval Ever: what comes out is valid, and nothing is raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutations import mutated
from tests.sources.builders import converted
from tests.sources.every_eval_ever import unpack_evaluations
from tests.sources.swe_bench import unpack_runs

BROKEN = 150


@pytest.mark.parametrize("unpack", [unpack_runs, unpack_evaluations])
def test_a_broken_file_gives_valid_events_or_a_reason(tmp_path: Path, unpack: Callable[[Path], Path]) -> None:
    """`converted` checks every event against the schema."""
    rng = Random(19)
    home = unpack(tmp_path / "home")
    files = sorted(path for path in home.rglob("*.json*") if path.is_file())
    good = 0
    for _ in range(BROKEN):
        file = rng.choice(files)
        whole = file.read_bytes()
        file.write_bytes(mutated(whole, rng))
        good += len(converted(home)[0])
        file.write_bytes(whole)
    assert good > BROKEN
