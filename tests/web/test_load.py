"""Fifty viewers, a thousand events a second: everyone ends with the same state, in bounded memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from streamer.client.readers import AsyncStateReader
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from tests.support.events import a_trial
from tests.support.eventually import eventually
from tests.web.browsing import WebProcess, a_stack
from tests.web.feeding import place_of
from tests.web.viewer import Viewer

pytestmark = pytest.mark.slow

VIEWERS = 50
EVENTS_PER_SECOND = 1000
SECONDS = 6
BATCHES_PER_SECOND = 20
MOST_GROWTH_BYTES = 96 * 2**20
CONVERGE_SECONDS = 60.0
PATH = "/api/runs/load/updates"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Settings]:
    with a_stack(tmp_path) as settings:
        yield settings


def lines() -> list[bytes]:
    """Results of 20 agents in 5 tiers: 126 summaries that change all the time."""
    slots = [
        {"task_id": f"task-{n % 60}", "attempt": 1 + n // 1200, "agent": f"agent-{n // 60 % 20}"}
        for n in range(EVENTS_PER_SECOND * SECONDS)
    ]
    return [
        orjson.dumps(
            a_trial(run_id="load", **slot, tier=f"T{n % 5}", resolved=n % 3 == 0, cost_usd=n % 7 / 10)
        )
        for n, slot in enumerate(slots)
    ]


def publish_paced(settings: Settings, events: list[bytes]) -> float:
    """Publish at the rate of the claim; seconds that it took."""
    start = time.monotonic()
    size = EVENTS_PER_SECOND // BATCHES_PER_SECOND
    with ThreadedPublisher(settings) as publisher:
        for number in range(0, len(events), size):
            for line in events[number : number + size]:
                publisher.send(Outgoing(b"load", line))
            time.sleep(max(0.0, start + (number + size) / EVENTS_PER_SECOND - time.monotonic()))
        publisher.flush()
    return time.monotonic() - start


async def test_fifty_viewers_converge_while_a_thousand_events_a_second_arrive(
    stack: Settings, tmp_path: Path
) -> None:
    events = lines()
    with ThreadedPublisher(stack) as publisher:
        publisher.send(Outgoing(b"load", events[0]))
    with WebProcess(stack, tmp_path) as web:
        async with AsyncStateReader(stack) as reader:
            await reader.wait_for("load", lambda run: run.trials == 1, timeout_seconds=30)
            viewers = [await Viewer(web.port, PATH).open() for _ in range(VIEWERS)]
            slow = await asyncio.open_connection("127.0.0.1", web.port, limit=1024)
            slow[1].write(f"GET {PATH} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            before = most = web.resident_bytes()
            publishing = asyncio.create_task(asyncio.to_thread(publish_paced, stack, events))
            while not publishing.done():
                most = max(most, web.resident_bytes())
                await asyncio.sleep(0.1)
            assert await publishing < 3 * SECONDS
            await reader.wait_for(
                "load", lambda run: run.trials == len(events), timeout_seconds=CONVERGE_SECONDS
            )
            summaries = [
                await reader.run("load"),
                *await reader.agents("load"),
                *await reader.tiers("load", within=True),
            ]
        expected = {place_of(s.model_dump(mode="json")): s.digest for s in summaries}
        assert len(expected) == 1 + 20 + 5 + 100
        for viewer in viewers:
            await eventually(
                lambda v=viewer: v.digests() == expected, "the viewer converges", CONVERGE_SECONDS
            )  # type: ignore[misc]
        assert all(viewer.events.count("snapshot") == 1 for viewer in viewers)
        most = max(most, web.resident_bytes())
        print(f"memory: {before / 2**20:.0f} MiB at the start, {most / 2**20:.0f} MiB at most")
        assert most - before < MOST_GROWTH_BYTES
        slow[1].close()
        for viewer in viewers:
            await viewer.close()
