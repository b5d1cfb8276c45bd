"""A recovery that another rebalance overtakes calls `on_recover` before the table is read."""

import asyncio
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import faust
from faust.events import Event
from faust.types import TP
from faust.types.tuples import ConsumerMessage

rebuilt = []


async def main():
    app = faust.App("overtaken", stream_recovery_delay=0.0)
    table = app.Table("latest", partitions=1, recovery_buffer_size=1)
    table.on_recover(AsyncMock(side_effect=lambda: rebuilt.append(len(table.data))))
    app.finalize()
    topic = table.changelog_topic.get_topic_name()
    place = TP(topic, 0)
    app.assignor = SimpleNamespace(assigned_actives=lambda: {place}, assigned_standbys=set)
    app.consumer, app._fetcher = Mock(), SimpleNamespace(maybe_start=AsyncMock())
    app.consumer.highwaters = AsyncMock(return_value={place: 10})  # the changelog has 10 rows
    app.consumer.earliest_offsets = AsyncMock(return_value={place: 0})
    app.consumer.seek_wait = AsyncMock()
    recovery = app.tables.recovery
    await recovery.start()
    for generation in (1, 2):
        app.consumer_generation_id = generation
        await recovery.on_rebalance({place}, set(), {place}, generation)
        await asyncio.sleep(0.5)
        if generation == 1:
            for offset in range(3):  # 3 rows arrive, then the next rebalance begins
                row = ConsumerMessage(topic, 0, offset, 0, 0, [], None, b"", None, 0, 0, place)
                await app.tables.changelog_queue.put(Event(app, f"key {offset}", "value", {}, row))
            await asyncio.sleep(0.5)
    await recovery.stop()


asyncio.run(main())
print(f"FAULT: on_recover ran with {rebuilt[0]} of 10 rows" if rebuilt else "ok: on_recover did not run")
raise SystemExit(bool(rebuilt))
