"""The regular work of a worker: what its heartbeat says, when it is sent, and what a failure ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from streamer.worker import process as module
from streamer.worker.process import MOST_QUARANTINED_TOLD, Housekeeping
from tests.support.eventually import eventually
from tests.worker.processor_bench import Bench


class Sink:
    """Takes heartbeats."""

    unsent, away, settled = 3, False, True

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    async def heartbeat(self, worker_id: str, status: dict[str, Any], *, at: datetime) -> None:
        self.told.append(status)


class Given:
    """Housekeeping beside a processor with one partition; its watch of the topics fails on demand."""

    def __init__(self) -> None:
        self.bench, self.sink = Bench(), Sink()
        self.stopped = self.fails = False
        app = SimpleNamespace(is_settled=False, unrecovered=0)
        collaborators: Any = {
            "processor": self.bench.processor,
            "sink": self.sink,
            "fencing": None,
            "repairs": SimpleNamespace(outcomes={}, stop=self._stop),
            "configuration": SimpleNamespace(made_with="0123"),
            "worker_id": "w",
            "metrics": SimpleNamespace(status=None),
            "topics": SimpleNamespace(finite=None, watch=self._watch),
            "checkpoints": None,
        }
        self.metrics = collaborators["metrics"]
        self.housekeeping = Housekeeping(app, "trial-events", **collaborators)  # type: ignore[arg-type]

    def _stop(self) -> None:
        self.stopped = True

    async def _watch(self) -> None:
        while not self.fails:
            await asyncio.sleep(0)
        raise ZeroDivisionError


def quarantined(*runs: str) -> Any:
    """A partition with these runs in quarantine."""
    held = {run: SimpleNamespace(quarantine=SimpleNamespace(reason=f"{run} is sick")) for run in runs}
    return SimpleNamespace(
        quarantined=held,
        lag=0,
        position=7,
        caught_up=False,
        published=False,
        pipeline=SimpleNamespace(runs=list),
        closed={},
        held=2,
        log_faults=["a fault"],
        checkpoint=SimpleNamespace(events_lost=5),
        moved=True,
    )


async def test_the_heartbeat_says_how_the_partitions_stand() -> None:
    given = Given()
    await given.bench.processor.handle(given.bench.batch(0, 40))
    status = given.housekeeping.status()
    assert (status["partitions"], status["catching_up"], status["waits"]) == ([0], [], None)
    assert (status["folded_to"], status["lag"]) == ({"0": 40}, {"0": 0})
    assert (status["open_runs"], status["closed_runs"]) == (len(given.bench.partition.run_ids()), 0)
    assert (status["unsent"], status["made_with"], status["quarantined"]) == (3, "0123", {})


async def test_a_partition_counts_as_published_once_no_run_waits_or_rests_and_redis_has_everything() -> None:
    given = Given()
    await given.bench.processor.handle(given.bench.batch(0, 40))
    partition = given.bench.partition
    await given.bench.processor.flush(seconds=1)
    assert given.housekeeping.status()["published_to"] == {"0": 40}
    partition.publish_queue.add_started(["run 0"])
    assert given.housekeeping.status()["published_to"] == {}, "a run rests"
    partition.publish_queue.drain()
    given.sink.settled = False
    assert given.housekeeping.status()["published_to"] == {}, "Redis lacks something"


def test_runs_in_quarantine_are_named_up_to_a_limit_and_all_are_counted() -> None:
    given = Given()
    runs = [f"run {number:03}" for number in range(MOST_QUARANTINED_TOLD + 7)]
    given.bench.processor.partitions[1] = quarantined(*runs)
    status = given.housekeeping.status()
    assert status["quarantined_runs"] == len(runs)
    assert status["quarantined"] == {run: f"{run} is sick" for run in runs[:MOST_QUARANTINED_TOLD]}
    assert (status["held_events"], status["log_faults"]) == (2, ["a fault"])
    assert (status["events_lost"], status["offsets_moved"], status["catching_up"]) == (5, [1], [1])


async def test_a_worker_that_waits_says_why() -> None:
    given = Given()
    await given.housekeeping.tell_of_waiting("waits for the configuration")
    assert [status["waits"] for status in given.sink.told] == ["waits for the configuration"]
    assert given.metrics.status.heartbeat["waits"] == "waits for the configuration"


@asynccontextmanager
async def at_work(given: Given) -> AsyncIterator[None]:
    """Housekeeping that ticks; at its end the worker has crashed, and nothing goes on after that."""
    running = asyncio.ensure_future(given.housekeeping.run())
    yield
    await eventually(lambda: bool(given.bench.app.crashes), "the worker ends")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_news_are_told_at_once_and_all_else_every_few_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICKS_PER_HEARTBEAT", 1_000_000)
    monkeypatch.setattr(module, "HOUSEKEEPING_TICK_SECONDS", 0.0)
    given = Given()
    async with at_work(given):
        await eventually(lambda: bool(given.sink.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        await eventually(lambda: given.sink.told[-1]["quarantined_runs"] == 1, "the news")
        given.fails = True
    assert [status["quarantined_runs"] for status in given.sink.told].count(1) == 1


async def test_partitions_that_are_ready_are_told_without_waiting_for_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOUSEKEEPING_TICK_SECONDS", 1_000_000.0)
    given = Given()
    async with at_work(given):
        await eventually(lambda: bool(given.sink.told), "the first heartbeat")
        given.bench.processor.partitions[1] = quarantined("sick")
        given.housekeeping.hurry()
        await eventually(lambda: given.sink.told[-1]["partitions"] == [0, 1], "the partitions")
        given.fails = True


async def test_a_failure_beside_the_processor_ends_the_worker() -> None:
    given = Given()
    given.fails = True
    async with at_work(given):
        pass
    assert [type(error) for error in given.bench.app.crashes] == [ZeroDivisionError]
    assert given.stopped
