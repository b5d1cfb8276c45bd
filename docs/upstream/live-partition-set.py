"""Faust drops events of a partition that it fetched although the partition is paused. Needs a broker."""

import asyncio
import logging
import os
import tempfile

import faust
from faust.types import TP

logging.disable()
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
settings = {"topic_disable_leader": True, "web_enabled": False, "datadir": tempfile.mkdtemp()}
name, seen = f"paused-{os.urandom(4).hex()}", []
app = faust.App(name, broker=f"kafka://{BROKER}", **settings)
quiet = app.topic(f"{name}-quiet", value_type=int, partitions=1, internal=True)
orders = app.topic(f"{name}-orders", value_type=int, partitions=1, internal=True)


@app.agent(quiet)
async def wait(stream):
    async for _ in stream:
        pass


@app.agent(orders)
async def process(stream):
    async for order in stream:
        seen.append(order)


async def main():
    await asyncio.gather(app.start(), asyncio.sleep(8))
    for order in range(3):
        app.consumer.pause_partitions({TP(orders.get_topic_name(), 0)})
        await asyncio.sleep(1.5)  # from now on a fetch waits, for the partition of `quiet` alone
        app.consumer.pause_partitions({TP(quiet.get_topic_name(), 0)})
        await orders.send(value=order)
        await asyncio.sleep(1.5)
        app.consumer.resume_partitions({TP(topic.get_topic_name(), 0) for topic in (quiet, orders)})
        await asyncio.sleep(1.5)
    await app.stop()


asyncio.run(main())
print("ok: all events arrived" if len(seen) == 3 else f"FAULT: {3 - len(seen)} of 3 events did not arrive")
raise SystemExit(len(seen) < 3)
