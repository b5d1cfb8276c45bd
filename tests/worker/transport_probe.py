"""A Faust app that has only the batch transport; run as a process, prints what it saw as one JSON line.

Its argument is a JSON object with the arguments of `main`: how many records to take, seconds to spend on each
batch, and after how many batches to raise (0: never).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from streamer.settings import Settings
from streamer.worker.transport import MAX_POLL_RECORDS, AsFetched, StreamerApp, batch_transport


class Probe:
    def __init__(self, app: StreamerApp, expected: int, seconds_per_batch: float, raise_after: int) -> None:
        self.app = app
        self.sizes: list[int] = []
        self.peak = 0
        self.expected, self.seconds, self.raise_after = expected, seconds_per_batch, raise_after
        self.done = asyncio.Event()

    async def take(self, stream: Any) -> None:
        async for batch in stream:
            self.peak = max(self.peak, self.app.event_consumer.handed.undone)
            if self.raise_after and len(self.sizes) == self.raise_after:
                self.done.set()
                raise RuntimeError("injected")
            self.sizes.append(len(batch.records))
            await asyncio.sleep(self.seconds)
            batch.finish()
            if sum(self.sizes) >= self.expected:
                self.done.set()


async def main(
    *, bootstrap: str, topic: str, embedded: bool, expected: int, seconds: float, raise_after: int = 0
) -> None:
    """Send one record, wait for it, send the others, wait for them, report."""
    settings = Settings(bootstrap=bootstrap, embedded=embedded, partitions=1)
    app = StreamerApp(
        topic,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        broker_session_timeout=6,
        broker_heartbeat_interval=2,
        broker_max_poll_records=MAX_POLL_RECORDS,
    )
    app.transport = batch_transport(app, settings, topic)
    probe = Probe(app, expected, seconds, raise_after)
    app.agent(app.topic(topic, schema=AsFetched()))(probe.take)
    running = asyncio.ensure_future(app.start())
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"first", partition=0)
        while not probe.sizes:
            await asyncio.sleep(0.01)
        acks = [await producer.send(topic, b"x" * 400, partition=0) for _ in range(expected - 1)]
        await asyncio.gather(*acks)
    await probe.done.wait()
    await app.consumer.commit()
    committed, _ = await app.event_consumer.committed(TopicPartition(topic, 0))
    print(json.dumps({"sizes": probe.sizes, "peak": probe.peak, "committed": committed}), flush=True)
    await app.stop()
    running.cancel()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(**json.loads(sys.argv[1])))
