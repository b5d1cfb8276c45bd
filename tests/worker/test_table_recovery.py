"""Faust goes on with a recovery that it was told to give up; ours ends there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamer.worker.tables import PatientRecovery


class HalfRead:
    """A table whose rebuild would find it half read."""

    async def on_recovery_completed(self, *_: Any) -> None:
        raise AssertionError("rebuilt from a half-read table")


@pytest.mark.parametrize(
    ("rebalances", "generation"),
    [(2, 7), (1, 8)],
    ids=["partitions were revoked", "partitions were assigned again"],
)
async def test_a_recovery_that_was_overtaken_rebuilds_nothing(rebalances: int, generation: int) -> None:
    app: Any = SimpleNamespace(
        rebalancing_count=rebalances,
        consumer_generation_id=generation,
        conf=SimpleNamespace(stream_recovery_delay=0.0),
    )
    recovery = PatientRecovery(app, {"half": HalfRead()})  # type: ignore[arg-type]
    recovery._rebalance = 1
    await recovery.on_recovery_completed(7)
    assert not recovery.completed.is_set()
