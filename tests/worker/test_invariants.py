"""The promises on which durability rests: the tests catch a worker that breaks one of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house.repository import ROOT
from tests.worker.mutants import MUTANTS

PARTITION, WORKER, FOREIGN = "test_partition.py", "test_worker.py", "test_foreign_records.py"
IN_QUARANTINE = "runs_in_quarantine_keep_no_batch_waiting_and_count_no_event"
CAUGHT = {
    "summary_before_page": (PARTITION, "pages_are_acknowledged_before_anything_else_is_written"),
    "batch_done_at_once": (
        PARTITION,
        "a_run_that_rests_is_published_when_its_rest_is_over_and_no_batch_of_it_is_done_before",
    ),
    "superseded_goes_on": (PARTITION, "a_worker_that_stood_still_for_its_session_writes_nothing_more"),
    "quarantined_counts": (PARTITION, IN_QUARANTINE),
    "quarantined_blocks": (PARTITION, IN_QUARANTINE),
    "closed_stays_closed": (
        WORKER,
        "a_worker_that_closes_runs_publishes_to_the_byte_what_one_does_that_never_closes",
    ),
    "epoch_goes_on": (FOREIGN, "a_log_that_ends_before_its_pages_do_begins_the_next_epoch[39-2]"),
}
"""Broken promise -> the file and the test that notice it."""


def outcome(mutant: str, *tests: tuple[str, str]) -> str:
    """What pytest says of tests of this folder where this fault is planted."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    nodes = [f"tests/worker/{file}::test_{name}" for file, name in tests]
    done = subprocess.run(
        [*argv, "-p", "tests.worker.mutants", *nodes],
        env=os.environ | {"MUTANT": mutant},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.stack
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_broken_promise_is_noticed(mutant: str) -> None:
    assert "1 failed" in outcome(mutant, CAUGHT[mutant])


@pytest.mark.stack
def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    tests = sorted(set(CAUGHT.values()))
    assert f"{len(tests)} passed" in outcome("none", *tests)
