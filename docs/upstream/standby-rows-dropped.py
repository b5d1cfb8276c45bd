"""Faust's memory store drops the rows of a standby partition, and Faust keeps how far it had read."""

import asyncio
from types import SimpleNamespace

import faust
from faust.events import Event
from faust.types import TP
from faust.types.tuples import ConsumerMessage


async def main():
    app = faust.App("standby", store="memory://")
    table = app.GlobalTable("latest", partitions=2)
    app.finalize()
    topic = table.changelog_topic.get_topic_name()
    active, standby = TP(topic, 0), TP(topic, 1)
    app.assignor = SimpleNamespace(assigned_actives=lambda: {active}, assigned_standbys=lambda: {standby})
    app.flow_control.resume()
    recovery = app.tables.recovery
    await recovery.on_rebalance({active, standby}, set(), {active, standby}, app.consumer_generation_id)
    reading = asyncio.ensure_future(type(recovery)._slurp_changelogs(recovery))
    for offset in range(3):
        row = ConsumerMessage(topic, 1, offset, 0, 0, [], None, b"", None, 0, 0, standby)
        await app.tables.changelog_queue.put(Event(app, f"key {offset}", "value", {}, row))
    await asyncio.sleep(0.5)
    reading.cancel()
    read = len(table.data)
    # The next rebalance leaves both partitions where they are.
    await recovery.on_rebalance({active, standby}, set(), set(), app.consumer_generation_id)
    await table.on_recovery_completed({active}, {standby})
    return read, len(table.data), recovery.standby_offsets[standby]


read, kept, offset = asyncio.run(main())
fault = kept < read and offset == 2
print(f"{'FAULT' if fault else 'ok'}: {kept} of {read} standby rows are left, offset {offset} counts as read")
raise SystemExit(fault)
