"""How long a journal takes to load at the start of `streamer up`.

    python -m benchmarks.bench_journal [--megabytes 1024] [--events-per-batch 1 20] [--codec none zstd]

Writes a journal of trial events in batches, as producers send them, and starts the embedded broker on it.
Prints how long that took, beside the time of the disk alone. The folder is removed afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.common import events, table
from benchmarks.embedded_server import EmbeddedServer
from streamer.operate.local.journal import CODECS, Journal, accepted

PARTITIONS = 8
DISTINCT = 20_000
WRITTEN_AT_ONCE = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the journal, MiB")
    parser.add_argument("--events-per-batch", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--codec", choices=CODECS, nargs="+", default=["none", "zstd"])
    args = parser.parse_args()
    rows = [("codec", "events a batch", "events", "MiB", "reading s", "ready after s")]
    for codec, count in itertools.product(args.codec, args.events_per_batch):
        with tempfile.TemporaryDirectory(prefix="bench-journal-") as folder:
            rows.append((codec, str(count), *measured(Path(folder), args.megabytes, codec, count)))
            print(table(rows), flush=True)


def measured(folder: Path, megabytes: int, codec: str, count: int) -> tuple[str, ...]:
    """Events, size, seconds to read it, seconds until the broker has it."""
    number = fill(folder / "journal", megabytes * 2**20, list(batches(codec, count)), count)
    began = time.monotonic()
    size = sum(len(path.read_bytes()) for path in (folder / "journal").iterdir())
    reading = time.monotonic() - began
    server = EmbeddedServer(folder, PARTITIONS)
    began = time.monotonic()
    try:
        server.start(600.0)
        ready = time.monotonic() - began
    finally:
        server.stop()
    return f"{number:,}", f"{size / 2**20:,.0f}", f"{reading:.1f}", f"{ready:.1f}"


def batches(codec: str, count: int) -> Iterator[bytes]:
    """Record batches of trial events, so many in each, as `up` keeps them."""
    lines = list(events(DISTINCT))
    for first in range(0, DISTINCT, count):
        builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 2**30)
        for offset, line in enumerate(lines[first : first + count]):
            builder.append(offset, 1_700_000_000_000 + offset, b"run", line, [])
        yield accepted(bytes(builder.build())).data


def fill(directory: Path, size: int, parts: list[bytes], count: int) -> int:
    """Write batches over and over until the journal has this size; how many events."""
    journal, written, number = Journal(directory), 0, 0
    source = itertools.cycle(enumerate(parts))
    while written < size:
        some = [
            (place % PARTITIONS, count, part) for place, part in itertools.islice(source, WRITTEN_AT_ONCE)
        ]
        journal.write(some)
        written += sum(len(part) for *_, part in some)
        number += count * len(some)
    journal.close()
    return number


if __name__ == "__main__":
    main()
