"""A stream acknowledges an event whose processing was cancelled, so that its offset is committed."""

import asyncio

import faust
from faust.types import TP
from faust.types.tuples import ConsumerMessage

started, finished = asyncio.Event(), []
app = faust.App("cancelled", value_serializer="raw")
place = TP("orders", 0)


@app.agent(app.topic("orders", partitions=1))
async def process(orders):
    async for order in orders:
        started.set()
        await asyncio.sleep(60)
        finished.append(order)


async def main():
    app.finalize()
    app.flow_control.resume()
    await process.start()
    await app.topics._update_indices()
    await app.topics.on_partitions_assigned({place})
    generation = app.consumer_generation_id
    message = ConsumerMessage(
        "orders", 0, 41, 0, 0, [], None, b"", None, 0, 0, place, generation_id=generation
    )
    await app.topics.on_message(message)
    await asyncio.wait_for(started.wait(), 5)
    await process.stop()
    return app.consumer._new_offset(place)


offset = asyncio.run(main())
fault = offset == 42 and not finished
print(
    "FAULT: offset 42 is to be committed, order 41 is not processed"
    if fault
    else "ok: order 41 is read again"
)
raise SystemExit(fault)
