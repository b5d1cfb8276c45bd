"""Logs of runs are read once, then on; memory is bounded; the run asked for last stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.web import log as run_log
from streamer.web.log import TooManyTrials, TrialLog
from tests.support.events import a_trial
from tests.web.feeding import Feed


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def logging_feed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(logged: Settings, clock: Clock) -> TrialLog:
    return TrialLog(logged, clock)


async def test_only_what_is_new_is_read_again_and_not_all_the_time(
    logging_feed: Feed, log: TrialLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    read = run_log.read_batches

    def counted(*args: Any, **kwargs: Any) -> Any:
        starts.append(kwargs["start"])
        return read(*args, **kwargs)

    monkeypatch.setattr(run_log, "read_batches", counted)
    await logging_feed.take([a_trial(task_id="task-1"), a_trial(task_id="task-2")])
    assert len(await log.trials("run-1")) == 2
    await logging_feed.take([a_trial(task_id="task-3", resolved=False)])
    assert len(await log.trials("run-1")) == 2
    clock.now += run_log.FRESH_LOG_SECONDS
    found = list((await log.trials("run-1")).values())
    assert [trial.row.task_id for trial in found] == ["task-1", "task-2", "task-3"]
    assert starts == [0, 2]


async def test_memory_is_bounded_the_run_asked_for_last_stays(
    logging_feed: Feed, log: TrialLog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_log, "MAX_TRIALS", 10)
    for run in ("a", "b", "c"):
        await logging_feed.take(a_trial(run_id=run, task_id=f"t{number}") for number in range(4))
    for run in ("a", "b", "c"):
        assert len(await log.trials(run)) == 4
    assert set(log._log.runs) == {"b", "c"}
    await logging_feed.take(a_trial(run_id="c", task_id=f"u{number}") for number in range(7))
    clock.now += run_log.FRESH_LOG_SECONDS
    with pytest.raises(TooManyTrials, match="query trials"):
        await log.trials("c")
    assert set(log._log.runs) == {"b"}
