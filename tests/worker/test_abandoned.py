"""What was cut and not published is published by nobody else in this process, and no batch of it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from streamer.worker.producer import ProducerRecord
from tests.worker.processor_bench import Bench


def hang_on(bench: Bench, topic: str) -> asyncio.Event:
    """Writes to this topic hang from now on; the event is set when one does."""
    write, hangs = bench.broker.write, asyncio.Event()

    async def hanging(records: Iterable[ProducerRecord]) -> None:
        outs = list(records)
        if any(out.topic == topic for out in outs):
            hangs.set()
            await asyncio.Event().wait()
        await write(outs)

    bench.broker.write = hanging  # type: ignore[method-assign]
    return hangs


async def pay(bench: Bench) -> None:
    """What housekeeping and the end of a worker do."""
    async with bench.processor.lock:
        await bench.processor.flush(seconds=9.0)


async def owing_bench() -> Bench:
    """Owes for a batch that is folded and saved."""
    bench = Bench()
    bench.behind = True
    await bench.processor.handle(bench.batch(0, 40))
    await bench.processor.handle(bench.batch(40, 40))
    assert bench.partition.publish_queue
    bench.broker.writes.clear()
    return bench


async def test_a_publication_that_was_cancelled_leaves_its_batches_undone() -> None:
    bench = await owing_bench()
    hangs, write = hang_on(bench, "run-summaries"), bench.broker.write
    paying = asyncio.ensure_future(pay(bench))
    await hangs.wait()
    paying.cancel()
    await asyncio.gather(paying, return_exceptions=True)
    bench.broker.write = write  # type: ignore[method-assign]
    await pay(bench)
    later = bench.batch(80, 40)
    await bench.processor.handle(later)
    assert bench.partition.publish_queue.runs
    assert bench.broker.writes == []
    assert (later.done, later.folded) == (False, False)


@pytest.mark.parametrize("topic", ["trials-changelog", "run-summaries", "scored-trials"])
async def test_whoever_waits_for_the_lock_while_a_write_fails_counts_nothing_as_done(topic: str) -> None:
    bench = Bench()
    bench.broker.refuses = topic
    batch = bench.batch(0, 40)
    handling = asyncio.ensure_future(bench.processor.handle(batch))
    paying = asyncio.ensure_future(pay(bench))
    while not bench.app.crashes:
        await asyncio.sleep(0)
    bench.broker.refuses = None
    await paying
    handling.cancel()
    written = {out.topic for outs in bench.broker.writes for out in outs}
    assert written <= {"trials-changelog"}
    assert not batch.done


async def test_a_recovery_whose_publication_was_cancelled_withdraws_nothing() -> None:
    before = Bench()
    await before.processor.handle(before.batch(0, 40))
    bench = Bench(catch_up_to=40, caught_up=False)
    bench.tables = before.tables
    for kind, table in before.tables.summaries.items():
        bench.processor._encoder._tables.summaries[kind].rows = table.rows
    hangs = hang_on(bench, "run-summaries")
    handling = asyncio.ensure_future(bench.processor.handle(bench.batch(0, 40)))
    await hangs.wait()
    handling.cancel()
    await asyncio.gather(handling, return_exceptions=True)
    async with bench.processor.lock:
        await bench.processor.publish_passed()
    assert not bench.partition.caught_up
    assert [out for outs in bench.broker.writes for out in outs if out.value is None] == []
