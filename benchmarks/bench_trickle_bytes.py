"""What a trickle writes to Kafka, topic by topic: how much of it any compression could still save.

    python -m benchmarks.bench_trickle_bytes [--events N]

Every event is published alone, as by an idle worker: each topic gets a record batch for what the event
changed. The batches are those of the clients' own builder, compressed by what is named above the columns;
zstd at level 3 is what the clients do. All figures are multiples of the events' own bytes.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import cramjam
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.common import events, table
from streamer.pipeline import Pipeline, Record

HEADER_BYTES = 61
"""Of a record batch; it is never compressed."""

WARM_UP_SHARE = 0.2

Records = list[tuple[str, bytes]]
"""Keys and values."""

COMPRESSORS: dict[str, Callable[[bytes], int]] = {
    "raw": len,
    "gzip 9": lambda body: len(zlib.compress(body, 9)) + 12,
    "zstd 3": lambda body: len(bytes(cramjam.zstd.compress(body, level=3))),
    "zstd 19": lambda body: len(bytes(cramjam.zstd.compress(body, level=19))),
}


def trickle_bytes(number: int) -> dict[str, dict[str, float]]:
    """Topic -> records for an event, and multiples of its bytes by compressor; `all` is their sum."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(["records", *COMPRESSORS], 0.0))
    lines = list(events(number))
    counted = lines[int(number * WARM_UP_SHARE) :]
    for place, batches in enumerate(_published(lines)):
        if place < number - len(counted):
            continue
        for topic, records in batches.items():
            body = _body(records)
            found[topic]["records"] += len(records) / len(counted)
            for name, size in COMPRESSORS.items():
                found[topic][name] += (HEADER_BYTES + size(body)) / sum(map(len, counted))
    for column in ("records", *COMPRESSORS):
        found["all"][column] = sum(of_topic[column] for of_topic in found.values())
    return dict(found)


def _published(lines: Iterable[bytes]) -> Iterator[dict[str, Records]]:
    """What each event makes a worker write, by topic."""
    pipeline = Pipeline(writer="w")
    for offset, line in enumerate(lines):
        batches: dict[str, Records] = defaultdict(list)
        for run_id in pipeline.fold([Record(line, offset)]).touched:
            pages = pipeline.page_writes(run_id)
            batches["state pages"] += [(page.key, page.value) for page in pages if page.value is not None]
            cut = pipeline.cut(run_id)
            for change in cut.summaries:
                batches[f"{change.kind} summaries"].append((change.key, change.value or b""))
            batches["scored trials"] += [(change.key, change.value or b"") for change in cut.scored]
            batches["grade changes"] += [(news.key, news.value) for news in cut.news]
        yield {topic: records for topic, records in batches.items() if records}


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
    found = trickle_bytes(parser.parse_args().events)
    head = ("topic", "records", *COMPRESSORS)
    print(table([head, *((topic, *of_topic.values()) for topic, of_topic in found.items())]))


if __name__ == "__main__":
    main()
