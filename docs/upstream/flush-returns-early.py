"""The flush of Faust's producer buffer returns while messages are still waiting to be sent."""

import asyncio
from types import SimpleNamespace

import faust
from faust.transport.producer import ProducerBuffer

sent = []


class SlowTopic:
    """A topic whose broker takes half a second for each message."""

    async def publish_message(self, message, wait=False):
        await asyncio.sleep(0.5)
        sent.append(message)


async def main():
    buffer = ProducerBuffer()
    buffer.app = faust.App("flush")
    await buffer.start()
    for _ in range(3):
        buffer.put(SimpleNamespace(message=SimpleNamespace(channel=SlowTopic())))
    await buffer.flush()
    return len(sent)


flushed = asyncio.run(main())
print(f"{'FAULT' if flushed < 3 else 'ok'}: flush returned when {flushed} of 3 messages were sent")
raise SystemExit(flushed < 3)
