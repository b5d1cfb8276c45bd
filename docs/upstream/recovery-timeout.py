"""A recovery that times out ends the recovery task, and no later rebalance recovers anything."""

import asyncio
from types import SimpleNamespace

import faust
from faust.types import TP

calls = []


class BusyConsumer:
    """A consumer whose broker does not answer in time when it is asked where the changelogs end."""

    async def highwaters(self, *partitions):
        calls.append(partitions)
        await asyncio.sleep(3600)


async def main():
    app = faust.App("timeout", broker_request_timeout=0.5, stream_recovery_delay=0.0)
    table = app.Table("latest", partitions=1)
    app.finalize()
    place = TP(table.changelog_topic.get_topic_name(), 0)
    app.assignor = SimpleNamespace(assigned_actives=lambda: {place}, assigned_standbys=set)
    app.consumer = BusyConsumer()
    recovery = app.tables.recovery
    await recovery.start()
    for generation in (1, 2):
        app.consumer_generation_id = generation
        await recovery.on_rebalance({place}, set(), {place}, generation)
        await asyncio.sleep(1.5)
    fault = len(calls) < 2 and not recovery.crashed and not recovery.should_stop
    await recovery.stop()
    return fault


fault = asyncio.run(main())
print("FAULT: the second rebalance starts no recovery" if fault else "ok: it starts one, or the task fails")
raise SystemExit(fault)
