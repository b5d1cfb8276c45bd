"""Faust commits an event although the changelog has not taken the row of it. Needs a broker."""

import asyncio
import logging
import os
import tempfile

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition

logging.disable()
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
name = f"refused-{os.urandom(4).hex()}"
app = faust.App(name, broker=f"kafka://{BROKER}", web_enabled=False, datadir=tempfile.mkdtemp())
orders = app.topic(f"{name}-orders", value_type=str, partitions=1, internal=True)
limit = {"max.message.bytes": "10000"}  # the broker refuses larger rows
changelog = app.topic(f"{name}-changelog", value_type=str, partitions=1, internal=True, config=limit)
latest = app.Table("latest", partitions=1, changelog_topic=changelog)


@app.agent(orders)
async def process(stream):
    async for order in stream:
        latest["order"] = order


async def main():
    await asyncio.gather(app.start(), asyncio.sleep(8))
    await orders.send(value="x" * 50_000)
    while "order" not in latest:
        await asyncio.sleep(0.1)
    await asyncio.sleep(6)
    events, rows = TopicPartition(f"{name}-orders", 0), TopicPartition(f"{name}-changelog", 0)
    reader = AIOKafkaConsumer(bootstrap_servers=BROKER, group_id=name, enable_auto_commit=False)
    await reader.start()
    reader.assign([events])
    committed, ends = await reader.committed(events), await reader.end_offsets([rows])
    await asyncio.gather(reader.stop(), app.stop())
    return committed, ends[rows]


committed, rows = asyncio.run(asyncio.wait_for(main(), 29))
state = f"offset {committed} is committed, the changelog has {rows} rows"
print(f"FAULT: {state}" if committed and not rows else f"ok: {state}")
raise SystemExit(bool(committed and not rows))
