"""The order in which a partition publishes what it has recovered, and what a failure leaves to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from streamer.worker.producer import ProducerRecord
from tests.worker.processor_bench import Bench


@pytest.mark.parametrize("other_basis", [False, True])
async def test_after_a_recovery_scored_trials_come_last_unless_they_follow_from_another_basis(
    other_basis: bool,
) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.partition.pending_checkpoint = b"{}" if other_basis else None
    batch = bench.batch(0, 40)
    reconciled: list[int] = []

    async def reconcile(changes: Iterable[Any]) -> None:
        assert list(changes)
        reconciled.append(len(bench.broker.topics))

    bench.sink.reconcile = reconcile  # type: ignore[method-assign]
    await bench.processor.handle(batch)
    scored = [n for n, topics in enumerate(bench.broker.topics) if "scored-trials" in topics]
    summaries = [n for n, topics in enumerate(bench.broker.topics) if "run-summaries" in topics]
    assert scored
    assert bench.broker.topics[0] == {"trials-changelog"}
    if other_basis:
        assert scored[-1] < summaries[0] < reconciled[0]
    else:
        assert summaries[-1] < reconciled[0] <= scored[0]
    assert batch.done


@pytest.mark.parametrize("topic", ["run-summaries", "scored-trials"])
async def test_no_batch_is_done_when_what_was_recovered_cannot_be_published(topic: str) -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    handling.cancel()
    assert not batch.done


async def test_who_waits_for_the_lock_counts_nothing_as_done_that_was_not_published() -> None:
    bench = Bench(catch_up_to=40, caught_up=False)
    batch, refuse, waits = bench.batch(0, 40), asyncio.Event(), asyncio.Event()
    write = bench.broker.write

    async def refusing(records: Iterable[ProducerRecord]) -> None:
        outs = list(records)
        if any(out.topic == "scored-trials" for out in outs):
            waits.set()
            await refuse.wait()
            raise OSError("refused")
        await write(outs)

    bench.broker.write = refusing  # type: ignore[method-assign]
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    await waits.wait()

    async def pays() -> None:
        async with bench.processor.lock:
            await bench.processor.flush()

    paying = asyncio.ensure_future(pays())
    await asyncio.sleep(0)
    refuse.set()
    await paying
    while not bench.app.crashes:
        await asyncio.sleep(0)
    handling.cancel()
    assert not batch.done
