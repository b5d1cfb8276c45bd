"""A few of the inputs of `python -m tests.fuzz.run`: bad input is answered with events or reasons."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.run import fuzz, jobs
from tests.fuzz.targets import TARGETS, Directory

INPUTS = {True: 60, False: 600}
"""How many: few where each is a run directory."""


@pytest.mark.parametrize("name", TARGETS)
def test_bad_input_is_answered_with_events_or_reasons(name: str) -> None:
    inputs = INPUTS[issubclass(TARGETS[name][0], Directory)]
    tally = fuzz(name, f"short {name}", inputs)
    harm = [finding for finding in tally.findings if not finding.is_slow]
    assert not harm, f"{harm[0].why}\n{harm[0].document[:2_000]!r}"
    assert tally.inputs == inputs
    assert tally.answered > 0, "the documents are broken beyond recognition: nothing is tested"


def test_the_same_seed_gives_the_same_inputs() -> None:
    document = (
        b'{"type": "trial_result", "run_id": "r", "task_id": "t", "benchmarks": {"a": [1, {"b": 2.5}]}}'
    )
    first, second = Random("s"), Random("s")
    assert [mutated(document, first) for _ in range(200)] == [mutated(document, second) for _ in range(200)]
    assert len({mutated(document, first) for _ in range(200)}) > 100


def test_a_full_run_has_as_many_inputs_as_were_asked_for_and_every_connector_many_thousands() -> None:
    planned = [(name, inputs) for name, _, inputs in jobs(1_000_000, 1)]
    assert sum(inputs for _, inputs in planned) >= 1_000_000
    for wanted in TARGETS:
        assert sum(inputs for name, inputs in planned if name == wanted) >= 10_000
