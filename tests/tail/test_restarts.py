"""A follower that is started again publishes the same events, and knows what it published before."""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path

import pytest

from streamer.sources.simulate import LAYOUTS, simulate_run
from streamer.sources.tail import Ledger
from tests.sources.builders import a_result, a_run, write_json
from tests.support.tailing import Followed, converted_digests, followed, wait_for_digests
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import LOCK, START


def restarted(before: Followed) -> Ledger:
    """The ledger as the journal has it after a kill."""
    ledger = Ledger()
    for line in before.lines:
        ledger.restore(json.loads(json.dumps(line)))
    return ledger


def test_a_restart_publishes_the_same_events_again(real: dict[str, Path]) -> None:
    with followed(real["fc-eval"]) as before:
        before.wait_until_converted()
    with followed(real["fc-eval"], restarted(before)) as after:
        after.wait_until_converted()
    assert after.events == before.events


def test_a_restart_knows_what_was_published_and_is_gone(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")])
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results, of nobody")
    shutil.rmtree(run / "b")
    write_json(run / "tb.lock", LOCK)
    with followed(run, restarted(before)) as after:
        wait_for_digests(lambda: before.events + after.events, converted_digests(run))


def test_a_withdrawal_that_was_noted_and_not_published_is_made_up_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results")
        shutil.rmtree(run / "b")
        wait_for(lambda: before.follower.status.withdrawn == 1, "the withdrawal")
    published = [event for event in before.events if event["type"] != "trial_retracted"]
    with followed(run, restarted(before)) as after:
        wait_for_digests(lambda: published + after.events, converted_digests(run))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_restarts_during_a_run_end_as_convert_has_it(tmp_path: Path, layout: str) -> None:
    run = tmp_path / "run"
    rng = random.Random(layout)
    harness = threading.Thread(
        target=simulate_run, args=(layout, run, 24), kwargs={"seed": 8, "start": START, "pace_seconds": 0.05}
    )
    harness.start()
    published: list[dict[str, object]] = []
    ledger = Ledger()
    while harness.is_alive():
        with followed(run, ledger) as following:
            harness.join(rng.random() * 0.5)
        published += following.events[: rng.randrange(len(following.events) + 1)]
        lines = list(ledger.dump())
        ledger = Ledger()
        for line in lines:
            ledger.restore(line)
    with followed(run, ledger) as following:
        wait_for_digests(lambda: [*published, *following.events], converted_digests(run))
