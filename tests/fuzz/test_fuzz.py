"""A few of the inputs of `python -m tests.fuzz.run`: bad input is answered with events or reasons."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from streamer.storage.kafka import Names
from tests.fuzz.live.beds import Bed, embedded, kafka, up
from tests.fuzz.live.episode import Episode
from tests.fuzz.live.seeds import VARIABLE, a_seed, told
from tests.fuzz.live.stream import Stream
from tests.fuzz.mutations import mutated
from tests.fuzz.run import fuzz, jobs
from tests.fuzz.targets import TARGETS
from tests.support.layouts import LAYOUTS

SLOW = {*LAYOUTS, "bundle"}
"""Targets of which each input is a run directory or a bundle: they get few."""


@pytest.mark.parametrize("name", TARGETS)
def test_bad_input_is_answered_with_events_or_reasons(name: str) -> None:
    inputs = 60 if name in SLOW else 600
    tally = fuzz(name, f"short {name}", inputs)
    harm = [finding for finding in tally.findings if not finding.is_slow]
    assert not harm, f"{harm[0].why}\n{harm[0].document[:2_000]!r}"
    assert tally.inputs == inputs
    assert tally.answered > 0, "the documents are broken beyond recognition: nothing is tested"


def test_the_same_seed_gives_the_same_inputs() -> None:
    document = b'{"type": "trial_result", "run_id": "r", "benchmarks": {"a": [1, {"b": 2.5}]}}'
    first, second = Random("s"), Random("s")
    assert [mutated(document, first) for _ in range(200)] == [mutated(document, second) for _ in range(200)]
    assert len({mutated(document, first) for _ in range(200)}) > 100


def test_a_full_run_has_as_many_inputs_as_were_asked_for_and_every_connector_many_thousands() -> None:
    planned = [(name, inputs) for name, _, inputs in jobs(1_000_000, 1)]
    assert sum(inputs for _, inputs in planned) >= 1_000_000
    for expected in TARGETS:
        assert sum(inputs for name, inputs in planned if name == expected) >= 10_000


# -----------------------------------------------------------------------------
# Fuzzed events through real workers, for a minute with another seed each time: see docs/fuzzing.md.
#
# `make fuzz-live` does the same for half an hour.


SECONDS = 25.0
"""Of publishing on each bed; verifying, a restart and verifying again take the rest of a minute."""

UNLIMITED = "tests.fuzz.live.unlimited_worker"
ENDS = (
    ("numbers", None, "64-bit"),
    ("times", None, "OverflowError: date value out of range|year .* out of range"),
    ("sizes", "long names", r"RecordTooLarge: a record for \S*-summaries has"),
)
"""Sort of limits, the sort of runs that is published, and the end of a worker that quarantine then names."""

SEED = 58
"""Of the tests without limits: it finds each soon, and whether it does hangs on no chance."""

FIND_SECONDS = 240.0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bed", [up, pytest.param(kafka, marks=pytest.mark.kafka)])
@pytest.mark.in_turn(2)
def test_fuzzed_events_do_no_harm(
    bed: Callable[[Path], AbstractContextManager[Bed]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = a_seed()
    with bed(tmp_path) as at_work:
        outcome = Episode(at_work, seed).run(seconds=SECONDS)
    said = told(bed.__name__, seed, outcome)
    with capsys.disabled():
        print(f"\n{said}")
    assert not outcome.harm, said
    accepted = outcome.records - outcome.refused - sum(outcome.rejected.values())
    assert accepted > outcome.records / 2, "the events are broken beyond recognition: nothing is tested"


@pytest.mark.slow
@pytest.mark.timeout(360)
@pytest.mark.parametrize(("limits", "sort", "reason"), ENDS, ids=[limits for limits, *_ in ENDS])
@pytest.mark.in_turn(3)
def test_without_limits_of_one_sort_the_same_events_find_the_end_of_a_worker_that_they_are_there_for(
    limits: str, sort: str | None, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with embedded(tmp_path, module=UNLIMITED, environment={"WITHOUT": limits}) as at_work:
        episode = Episode(at_work, SEED, faults=False, sort=sort)
        deadline = time.monotonic() + FIND_SECONDS
        while not (harm := episode.outcome.harm) and time.monotonic() < deadline:
            episode.round()
    with capsys.disabled():
        print(f"\nseed {SEED}, without the limits of {limits}: {episode.outcome.rounds} rounds")
    assert harm, "nothing is found"
    assert all(re.search(reason, one) for one in harm), told(embedded.__name__, SEED, episode.outcome)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_end_of_a_worker_is_harm(tmp_path: Path) -> None:
    """Without the quarantine as well, the first of those faults ends the worker."""
    with embedded(tmp_path, module=UNLIMITED, environment={"QUARANTINE": "off"}) as at_work:
        outcome = Episode(at_work, SEED, faults=False).run(seconds=FIND_SECONDS)
    assert "has ended" in outcome.harm[0], outcome


def test_the_same_seed_publishes_the_same() -> None:
    first, second, other = (Stream(seed, 4, Names("fuzz")) for seed in ("1", "1", "2"))
    rounds = [(stream.round(), stream.round()) for stream in (first, second, other)]
    assert rounds[0] == rounds[1]
    assert rounds[0] != rounds[2]


def test_the_seed_is_the_variables_else_one_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "42")
    assert a_seed() == 42
    monkeypatch.delenv(VARIABLE)
    assert a_seed() == a_seed() != 42
    monkeypatch.setenv("PATH", "")
    assert a_seed() == datetime.now(UTC).toordinal()
