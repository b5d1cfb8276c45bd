"""What a trickle writes to Kafka, topic by topic: how much of it any compression could still save.

    python -m benchmarks.bench_trickle_bytes [--events N] [--together N ...]

Every event is published alone, as by an idle worker: each topic gets a record batch for what the event
changed. The batches come from the clients' own builder, compressed by the codec above the columns. Clients
use zstd at level 3. All figures are multiples of the events' own bytes.

Then the same for events that share a publication, because the worker waits until there are so many: each
partition of a topic gets one batch. Of N events that come 5 ms apart the first waits (N - 1) * 5 ms, and
half of them at least half of that.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import cramjam
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.common import events, table
from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.storage.kafka import partition_of

HEADER_BYTES = 61
"""Header of a record batch; it is never compressed."""

WARM_UP_SHARE = 0.2

PARTITIONS = 8

APART_MS = 5
"""Between two of 200 events a second."""

Records = list[tuple[str, bytes]]
"""Keys and values."""

COMPRESSORS: dict[str, Callable[[bytes], int]] = {
    "raw": len,
    "gzip 9": lambda body: len(zlib.compress(body, 9)) + 12,
    "zstd 3": lambda body: len(bytes(cramjam.zstd.compress(body, level=3))),
    "zstd 19": lambda body: len(bytes(cramjam.zstd.compress(body, level=19))),
}


def trickle_bytes(number: int, together: int = 1) -> dict[str, dict[str, float]]:
    """Topic -> records for an event, and multiples of its bytes by compressor; `all` is their sum.

    Args:
        number: events over 32 runs, published one after the other.
        together: so many share a publication.
    """
    result: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(["records", *COMPRESSORS], 0.0))
    lines = list(events(number))
    warm_up = int(number * WARM_UP_SHARE) // together * together
    counted = lines[warm_up:]
    for place, batches in enumerate(_published(lines, together)):
        if place * together < warm_up:
            continue
        for (topic, _), records in batches.items():
            body = _body(records)
            result[topic]["records"] += len(records) / len(counted)
            for name, size in COMPRESSORS.items():
                result[topic][name] += (HEADER_BYTES + size(body)) / sum(map(len, counted))
    for column in ("records", *COMPRESSORS):
        result["all"][column] = sum(of_topic[column] for of_topic in result.values())
    return dict(result)


def _published(lines: Iterable[bytes], together: int) -> Iterator[dict[tuple[str, int], Records]]:
    """What each publication makes a worker write, by topic and partition."""
    pipeline = Pipeline(writer="w")
    records = (Record(line, offset) for offset, line in enumerate(lines))
    while batch := list(islice(records, together)):
        batches: dict[tuple[str, int], Records] = defaultdict(list)
        for run_id in sorted(pipeline.fold(batch).touched):
            partition = partition_of(run_id, PARTITIONS)
            pages = pipeline.run(run_id).take_pages()
            cut = pipeline.run(run_id).take_changes()
            for topic, records_of in (
                ("state pages", [(page.key, page.value) for page in pages if page.value is not None]),
                *((f"{change.kind} summaries", [(change.key, change.value)]) for change in cut.summaries),
                ("scored trials", [(change.key, change.value) for change in cut.scored]),
                ("grade changes", [(changes.key, changes.value) for changes in cut.notifications]),
            ):
                batches[topic, partition] += [(key, value or b"") for key, value in records_of]
        yield {place: result for place, result in batches.items() if result}


def _body(records: Records) -> bytes:
    """The part of a record batch that is compressed."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000_000,
    )
    for place, (key, value) in enumerate(records):
        builder.append(place, None, key.encode(), value, [])
    return bytes(builder.build())[HEADER_BYTES:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000, help="over 32 runs; default 4,000")
    parser.add_argument(
        "--together",
        type=int,
        nargs="*",
        choices=range(1, 101),
        metavar="N",
        default=[2, 3, 5, 10, 20],
        help="events that share a publication, 1 to 100",
    )
    args = parser.parse_args()
    result = trickle_bytes(args.events)
    head = ("topic", "records", *COMPRESSORS)
    print(table([head, *((topic, *of_topic.values()) for topic, of_topic in result.items())]))
    rows = [
        (number, (number - 1) * APART_MS, *trickle_bytes(args.events, number)["all"].values())
        for number in args.together
    ]
    if rows:
        print()
        print(table([("together", "the first waits, ms", "records", *COMPRESSORS), *rows]))


if __name__ == "__main__":
    main()
