"""Curves of a run that changes: worked out again when it has changed, and not at once."""

from __future__ import annotations

import asyncio

from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.web.run_curves import REST, CurveCache, RunCurves
from tests.support.events import a_trial
from tests.web.feeding import Feed


class Clock:
    """Seconds that pass when the test says so, and one for each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1.0
        return self.seconds


def trials(first: int, last: int) -> list[dict[str, object]]:
    return [a_trial(task_id=f"t{n}", finished_at=f"2026-01-31T09:{n:02}:00Z") for n in range(first, last)]


def counted(found: RunCurves) -> int:
    [curve] = found.curves
    return curve.points[-1].trials


async def test_curves_follow_the_run_and_rest_after_work(logged: Settings) -> None:
    clock = Clock()
    cache = CurveCache(logged, PriceTable.default(), asyncio.Lock(), clock)
    async with Feed(logged, log=True) as feed:
        await feed.take(trials(0, 3))
        assert counted(await cache.curves("run-1", (1, 2))) == 3
        await feed.take(trials(3, 5))
        assert counted(await cache.curves("run-1", (1, 2))) == 3, "the same version is the same answer"
        assert counted(await cache.curves("run-1", (1, 4))) == 3, "it rests"
        clock.seconds += 3 * REST
        found = await cache.curves("run-1", (1, 4))
        assert (counted(found), found.state_version) == (5, 4)
