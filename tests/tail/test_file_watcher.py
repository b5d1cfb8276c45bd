"""A system that tells of no changes is made up for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from streamer.sources.tail.scan import TICK_SECONDS
from tests.sources.builders import a_result, a_run, a_trial_file
from tests.support.tailing import followed
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import LOCK


def test_the_system_that_tells_of_no_changes_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(
        *_: object, ignore_permission_denied: bool, stop_event: Event, **__: object
    ) -> Iterator[set[Path]]:
        if not ignore_permission_denied:  # with it, watchfiles ignores every refusal
            raise OSError(28, "OS file watch limit reached")
        while not stop_event.wait(TICK_SECONDS):
            yield set()

    monkeypatch.setattr("streamer.sources.tail.scan.watch", refuse)
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "what is there")
        a_trial_file(run, a_result("b"))
        wait_for(lambda: len(following.trials) == 2, "another result")
    assert ["watch limit" in line for line in following.said] == [True]
