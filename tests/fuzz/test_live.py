"""Fuzzed events through real workers, for two minutes with another seed each time: see docs/fuzzing.md.

`make fuzz-live` does the same for half an hour.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.fuzz.live.beds import Bed, embedded, kafka, up
from tests.fuzz.live.episode import Episode
from tests.fuzz.live.seeds import a_seed, told
from tests.fuzz.live.stream import Stream

SECONDS = 45.0
"""Of publishing on each bed; verifying, a restart and verifying again take the rest of a minute."""

UNLIMITED = "tests.fuzz.live.unlimited_worker"
FAULTS = {
    "sums beyond 64 bits": re.compile("64-bit"),
    "a time beyond year 9999": re.compile("OverflowError: date value out of range|year .* out of range"),
    "a summary larger than a message": re.compile(r"RecordTooLarge: a record for \S*-summaries has"),
}
"""The three ends of a worker that the limits are there for, and what quarantine says of them."""

SEED = 56
"""Of the tests without limits: it finds all three soon, and whether it does hangs on no chance."""

FIND_SECONDS = 420.0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bed", [up, pytest.param(kafka, marks=pytest.mark.kafka)])
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
@pytest.mark.timeout(600)
def test_without_the_limits_the_same_events_find_the_three_ends_of_a_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: set[str] = set()
    with embedded(tmp_path, module=UNLIMITED) as at_work:
        episode = Episode(at_work, SEED)
        deadline = time.monotonic() + FIND_SECONDS
        while found != FAULTS.keys() and time.monotonic() < deadline:
            episode.round()
            harm = episode.outcome.harm
            found = {fault for fault, reason in FAULTS.items() if any(map(reason.search, harm))}
    with capsys.disabled():
        print(f"\nseed {SEED}, without limits, {episode.outcome.rounds} rounds: {', '.join(sorted(found))}")
    assert found == FAULTS.keys(), told(embedded.__name__, SEED, episode.outcome)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_end_of_a_worker_is_harm(tmp_path: Path) -> None:
    """Without the quarantine as well, the first of those faults ends the worker."""
    with embedded(tmp_path, module=UNLIMITED, environment={"QUARANTINE": "off"}) as at_work:
        outcome = Episode(at_work, SEED).run(seconds=FIND_SECONDS)
    assert "has ended" in outcome.harm[0], outcome


def test_the_same_seed_publishes_the_same() -> None:
    first, second, other = (Stream(seed, 4) for seed in ("1", "1", "2"))
    rounds = [(stream.round(), stream.round()) for stream in (first, second, other)]
    assert rounds[0] == rounds[1]
    assert rounds[0] != rounds[2]
