"""A worker that stops commits the offset of an event whose processing it has cancelled. Needs a broker."""

import asyncio
import logging
import os
import tempfile

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition

logging.disable()
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
settings = {"stream_wait_empty": False, "web_enabled": False, "datadir": tempfile.mkdtemp()}
name, started, finished = f"cancelled-{os.urandom(4).hex()}", asyncio.Event(), asyncio.Event()
app = faust.App(name, broker=f"kafka://{BROKER}", **settings)
orders = app.topic(f"{name}-orders", partitions=1, internal=True)


@app.agent(orders)
async def process(stream):
    async for _ in stream:
        started.set()
        await asyncio.sleep(60)
        finished.set()


async def main():
    await asyncio.gather(app.start(), asyncio.sleep(8))
    await orders.send(value="order 0")
    await started.wait()
    await app.stop()
    place = TopicPartition(f"{name}-orders", 0)
    reader = AIOKafkaConsumer(bootstrap_servers=BROKER, group_id=name, enable_auto_commit=False)
    await reader.start()
    reader.assign([place])
    committed = await reader.committed(place)
    await reader.stop()
    return committed


committed = asyncio.run(asyncio.wait_for(main(), 29))
fault = bool(committed) and not finished.is_set()
print(f"{'FAULT' if fault else 'ok'}: offset {committed} is committed, event 0 was cancelled")
raise SystemExit(fault)
