"""Waiting for a condition of a run ends when it holds, or says where the run is."""

from __future__ import annotations

import asyncio
import threading

import pytest

from streamer.client import AsyncStateReader, NotReached, StateReader
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from tests.client.following import DEADLINE_SECONDS, Worker
from tests.support.builders import a_run_change


async def test_waiting_ends_when_the_run_is_finished(reader: AsyncStateReader, worker: Worker) -> None:
    waiting = asyncio.create_task(reader.wait_for("r1", timeout_seconds=DEADLINE_SECONDS))
    await worker.write(a_run_change(version=1, progress={"done": 1, "planned": 2}))
    await worker.write(a_run_change(version=2, progress={"done": 1, "planned": 2}, status="done"))
    assert (await waiting).status == "done"
    await worker.write(a_run_change("r2", version=1, progress={"done": 2, "planned": 2}))
    assert (await reader.wait_for("r2", timeout_seconds=DEADLINE_SECONDS)).run_id == "r2"


async def test_waiting_ends_when_a_condition_holds(reader: AsyncStateReader, worker: Worker) -> None:
    def enough(run: RunSummary) -> bool:
        return run.trials >= 3

    waiting = asyncio.create_task(reader.wait_for("r1", enough, timeout_seconds=DEADLINE_SECONDS))
    for number in range(1, 5):
        await worker.write(a_run_change(version=number, trials=number))
    assert (await waiting).trials >= 3


async def test_waiting_in_vain_says_where_the_run_is(reader: AsyncStateReader, worker: Worker) -> None:
    with pytest.raises(NotReached, match=r"'r1' did not get there within 0\.2 s: there is no such run yet"):
        await reader.wait_for("r1", timeout_seconds=0.2)
    await worker.write(a_run_change(version=1, progress={"done": 1, "planned": 2_000}))
    with pytest.raises(NotReached, match=r"1 of 2,000 slots filled, stalled") as caught:
        await reader.wait_for("r1", timeout_seconds=1)
    assert isinstance(caught.value, TimeoutError)
    reading = {"done": 1, "planned": None, "plan_complete": False}
    await worker.write(a_run_change(version=2, progress=reading))
    with pytest.raises(NotReached, match=r"1 of \? slots filled, plan not complete yet, unfinished"):
        await reader.wait_for("r1", timeout_seconds=1)
    assert caught.value.last is not None


async def test_plain_code_can_wait_too(settings: Settings, worker: Worker) -> None:
    found: list[RunSummary] = []
    with StateReader(settings) as plain:
        thread = threading.Thread(
            target=lambda: found.append(plain.wait_for("r1", timeout_seconds=DEADLINE_SECONDS))
        )
        thread.start()
        await worker.write(a_run_change(version=2, status="done"))
        await asyncio.to_thread(thread.join)
        assert found[0].status == "done"
        with pytest.raises(NotReached, match="no such run"):
            plain.wait_for("r2", timeout_seconds=0.1)
