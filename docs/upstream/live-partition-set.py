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
orders = app.topic(f"{name}-orders")


@app.agent(app.topic(f"{name}-quiet", f"{name}-orders", partitions=1, internal=True))
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
missing = 2 - len(seen)
print(f"{'FAULT' if missing else 'ok'}: {missing} of 2 events did not arrive")
raise SystemExit(missing > 0)
