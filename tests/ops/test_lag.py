"""The lag of the workers behind the event topic."""

from __future__ import annotations

import asyncio

from streamer.operate.health import read_lags
from tests.ops.verifying import scatter
from tests.support.events import a_trial
from tests.support.online import PARTITIONS, Online
from tests.support.worker_process import wait_for


def test_lag_counts_what_lies_after_the_committed_offsets(idle: Online) -> None:
    def lag() -> list[int]:
        return [partition.lag for partition in asyncio.run(read_lags(idle.settings))]

    assert lag() == [0] * PARTITIONS
    asyncio.run(scatter(idle.settings, [a_trial(run_id="r", task_id=f"t{n}") for n in range(6)]))
    assert lag() == [2] * PARTITIONS
    idle.worker.start()
    wait_for(lambda: lag() == [0] * PARTITIONS, "everything is committed", 20)
