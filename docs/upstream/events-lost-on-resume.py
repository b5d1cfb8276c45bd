"""Events that Faust fetches between resume and seek, after a recovery, are dropped. Needs a broker."""

import asyncio
import os
import tempfile

import faust
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
name, seen = f"resume-{os.urandom(4).hex()}", set()
app = faust.App(name, broker=f"kafka://{BROKER}", web_enabled=False, datadir=tempfile.mkdtemp())
table = app.Table("latest", partitions=1, recovery_buffer_size=1)
orders, changelog = f"{name}-orders", table.changelog_topic.get_topic_name()


@app.agent(app.topic(orders, value_type=int))
async def process(stream):
    async for order in stream:
        seen.add(order)
        await asyncio.sleep(0.002)


async def main():
    seek, admin = app.consumer.perform_seek, AIOKafkaAdminClient(bootstrap_servers=BROKER)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1) for topic in (orders, changelog)])
    async with AIOKafkaProducer(bootstrap_servers=BROKER) as producer:
        await producer.send_and_wait(changelog, b"1", b'"key"')  # so that there is a row to recover
        await asyncio.gather(*[await producer.send(orders, b"%d" % number) for number in range(1000)])
    app.consumer.perform_seek = lambda: late(seek)
    await asyncio.gather(app.start(), asyncio.sleep(15))
    await asyncio.gather(app.stop(), admin.close())


async def late(seek):
    await asyncio.sleep(2)  # as with a broker that takes its time to answer with the committed offsets
    await seek()


asyncio.run(main())
missing = 1000 - len(seen)
print(f"{'FAULT' if missing else 'ok'}: {missing} of 1000 events did not arrive")
raise SystemExit(missing > 0)
