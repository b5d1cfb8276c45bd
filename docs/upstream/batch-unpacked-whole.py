"""aiokafka unpacks a record batch whole, however large it is, before it hands on the first record."""

import contextlib
import tracemalloc

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

FETCH_MAX_BYTES = 52_428_800  # the default of AIOKafkaConsumer
zstd, zeros = 4, bytes(1024 * 1024)
builder = DefaultRecordBatchBuilder(2, zstd, False, -1, -1, -1, 2**30)
for offset in range(100):
    builder.append(offset, timestamp=0, key=None, value=zeros, headers=[])
packed = MemoryRecords(bytes(builder.build()))
del builder

tracemalloc.start()
place = TopicPartition("events", 0)
with contextlib.suppress(Exception):  # to refuse the batch would be in order
    first = next(PartitionRecords(place, packed, [], 0, None, None, True, READ_UNCOMMITTED))
_, peak = tracemalloc.get_traced_memory()
size, fault = packed.size_in_bytes(), peak > FETCH_MAX_BYTES
print(f"{'FAULT' if fault else 'ok'}: a batch of {size:,} bytes takes {peak:,} bytes of memory")
raise SystemExit(fault)
