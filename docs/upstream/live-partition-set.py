"""Faust fetches events of a paused partition and drops them. Needs a broker."""

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
quiet, orders = (app.topic(f"{name}-{topic}", partitions=1, internal=True) for topic in ("quiet", "orders"))


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
    await orders.send(value="with nothing paused")
    while not seen:
        await asyncio.sleep(0.1)
    app.consumer.pause_partitions({TP(f"{name}-orders", 0)})
    await asyncio.sleep(2.5)  # from now on, a fetch waits for records of `quiet` alone
    app.consumer.pause_partitions({TP(f"{name}-quiet", 0)})
    await orders.send(value="with both paused")
    await asyncio.sleep(2)
    app.consumer.resume_partitions({TP(f"{name}-quiet", 0), TP(f"{name}-orders", 0)})
    await asyncio.sleep(4)
    await app.stop()


asyncio.run(asyncio.wait_for(main(), 29))
print(
    "ok: both events arrived" if len(seen) == 2 else "FAULT: the event that came during the pause is missing"
)
raise SystemExit(len(seen) != 2)
