"""Curves of a run that changes: worked out again when it has changed, and not at once."""

from __future__ import annotations

import asyncio
from threading import Event
from types import SimpleNamespace

import pytest

from streamer.folding.score.prices import PriceTable
from streamer.settings import Settings
from streamer.web.log import REST, CurveCache, Folds, RunCurves
from tests.support.events import a_trial, folded
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
    cache = CurveCache(logged, PriceTable.default(), Folds(), clock)
    async with Feed(logged, log=True) as feed:
        await feed.take(trials(0, 3))
        assert counted(await cache.curves("run-1", (1, 2))) == 3
        await feed.take(trials(3, 5))
        assert counted(await cache.curves("run-1", (1, 2))) == 3, "the same version is the same answer"
        assert counted(await cache.curves("run-1", (1, 4))) == 3, "it rests"
        clock.seconds += 3 * REST
        found = await cache.curves("run-1", (1, 4))
        assert (counted(found), found.state_version) == (5, 4)


async def test_held_curves_wait_for_no_fold_and_those_who_ask_together_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []

    def fold(_: object, run_id: str, __: object) -> SimpleNamespace:
        begun.append(run_id)
        return SimpleNamespace(run=folded(trials(0, 3))[0].run("run-1"))

    monkeypatch.setattr("streamer.web.log.fold_run", fold)
    folds, gate = Folds(), Event()
    cache = CurveCache(Settings(), PriceTable.default(), folds)
    together = await asyncio.gather(*(cache.curves("run-1", (1, version)) for version in (2, 2, 3)))
    assert [(counted(found), found.state_version) for found in together] == [(3, 2)] * 3
    assert begun == ["run-1"]
    other = asyncio.create_task(folds.answer("another question", lambda: gate.wait(30)))
    try:
        async with asyncio.timeout(10):
            assert counted(await cache.curves("run-1", (1, 2))) == 3
    finally:
        gate.set()
    assert await other
