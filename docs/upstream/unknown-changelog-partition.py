"""Faust applies a changelog record of a partition that it does not have to another table."""

import asyncio
from types import SimpleNamespace

import faust
from faust.events import Event
from faust.types import TP
from faust.types.tuples import ConsumerMessage


async def main():
    app = faust.App("unknown", store="memory://")
    orders, names = (app.Table(name, partitions=1, recovery_buffer_size=1) for name in ("orders", "names"))
    app.finalize()
    ours, other = (TP(table.changelog_topic.get_topic_name(), 0) for table in (orders, names))
    app.assignor = SimpleNamespace(assigned_actives=lambda: {ours}, assigned_standbys=set)
    app.flow_control.resume()
    recovery = app.tables.recovery
    await recovery.on_rebalance({ours}, set(), {ours}, app.consumer_generation_id)
    reading = asyncio.ensure_future(type(recovery)._slurp_changelogs(recovery))
    for offset, (place, key) in enumerate([(ours, "order 7"), (other, "name 7"), (ours, "order 8")]):
        row = ConsumerMessage(place.topic, 0, offset, 0, 0, [], None, b"", None, 0, 0, place)
        await app.tables.changelog_queue.put(Event(app, key, "value", {}, row))
    await asyncio.sleep(0.5)
    reading.cancel()
    return sorted(orders.data)


rows = asyncio.run(main())
fault = "name 7" in rows
print(f"{'FAULT' if fault else 'ok'}: the table of orders holds {rows}")
raise SystemExit(fault)
