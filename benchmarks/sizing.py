"""From the measured constants to machines: how many worker cores, broker cores and gigabytes a load takes.

    python -m benchmarks.sizing [--events-per-second N] [--slots N] [--out DIR]

Everything is linear in what was measured; what is not linear stands in docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

GIB = 2**30
TRICKLE_RATE = 200
"""Events a second of the trickle that was measured, over 32 runs."""

LOADS = (200, 1_000, 10_000, 100_000)
SLOTS = (10**6, 10**7, 10**8, 10**9)
FULL_AT = 0.7
"""A core counts as full at this share of its time: the rest is for bursts, and for catching up."""

WORKER_BYTES = 4 * GIB
"""Resident memory of one worker that recovers in good time."""

REPLICAS = 3


@dataclass(frozen=True)
class Constants:
    """What one event and one slot take, as measured.

    Attributes:
        backlog_us, trickle_us: processor time of the worker for an event, many at once and one by one.
        broker_share, redis_share: their processor time for each of the worker's, draining a backlog.
        trickle_broker_us, trickle_redis_us: their processor time for an event of a trickle.
        event_bytes: an event as published.
        written, trickle_written: bytes written to Kafka for each byte of an event.
        slot_bytes: resident bytes of a slot in a worker.
        page_share: bytes of state pages for each byte of an event.
        recovery_us: time to take one slot back after a crash, by store.
        run_bytes: of a run in Redis.
    """

    backlog_us: float
    trickle_us: float
    broker_share: float
    redis_share: float
    trickle_broker_us: float
    trickle_redis_us: float
    event_bytes: float
    written: float
    trickle_written: float
    slot_bytes: float
    page_share: float
    recovery_us: dict[str, float]
    run_bytes: float


def constants(results: dict[str, Any]) -> Constants | None:
    """From bench.json; None until every family that is needed was measured."""
    families = results["families"]
    if not {"peers", "latency", "volume", "big-run"} <= set(families):
        return None
    peers, volume = families["peers"]["details"], families["volume"]["details"]
    trickle, big = families["latency"]["details"]["kafka"], families["big-run"]["details"]
    return Constants(
        backlog_us=median(peers["cpu_microseconds"]["streamer"]),
        trickle_us=median(trickle["worker_cpu_microseconds"]),
        broker_share=median(peers["broker_share"]),
        redis_share=median(peers["redis_share"]),
        trickle_broker_us=median(trickle["broker_cpu_microseconds"]),
        trickle_redis_us=median(trickle["redis_cpu_microseconds"]),
        event_bytes=volume["event_bytes"],
        written=volume["times"],
        trickle_written=median(trickle["written"]),
        slot_bytes=big["memory"]["bytes_a_slot"],
        page_share=volume["by_topic"]["trials-changelog"],
        recovery_us={store: _of_a_slot(result) for store, result in big.items()},
        run_bytes=volume["redis_bytes_a_run"],
    )


def _of_a_slot(result: dict[str, Any]) -> float:
    """Microseconds to take one slot back, what recovering nothing takes left out."""
    nothing = median(result.get("recovered_nothing_seconds") or [0.0])
    return max(median(result["recovered_seconds"]) - nothing, 0.0) / float(result["slots"]) * 1e6


def of_constants(result: Constants) -> Iterator[tuple[str, str]]:
    """The constants as rows."""
    yield "what one event or slot takes", "measured"
    yield "worker CPU for an event, draining a backlog", f"{result.backlog_us:.0f} us"
    yield "worker CPU for an event at 200/s over 32 runs", f"{result.trickle_us:,.0f} us"
    yield "broker CPU / worker CPU, backlog", f"{result.broker_share:.2f}"
    yield "Redis CPU / worker CPU, backlog", f"{result.redis_share:.2f}"
    yield "broker CPU for an event at 200/s", f"{result.trickle_broker_us:,.0f} us"
    yield "Redis CPU for an event at 200/s", f"{result.trickle_redis_us:,.0f} us"
    yield "an event as published", f"{result.event_bytes:.0f} bytes"
    yield "written to Kafka for it, backlog", f"{result.written * result.event_bytes:,.0f} bytes"
    yield "written to Kafka for it, at 200/s", f"{result.trickle_written * result.event_bytes:,.0f} bytes"
    yield "a slot in a worker's memory", f"{result.slot_bytes:.0f} bytes"
    yield (
        "a slot on the state pages in Kafka, compressed",
        f"{result.page_share * result.event_bytes:.0f} bytes",
    )
    for store, microseconds in result.recovery_us.items():
        yield f"taking a slot back after a crash, store {store}", f"{microseconds:.1f} us"
    yield "a run of 48 groups in Redis, with its history", f"{result.run_bytes / 1024:,.0f} KiB"


def of_loads(result: Constants, loads: Sequence[int] = LOADS) -> Iterator[tuple[str, ...]]:
    """Worker cores, broker cores, Redis cores and megabytes a second for so many events a second.

    32 live runs are published equally often at every rate. So the first 200 events a second cost what they
    cost in a trickle, and each further event costs what it costs in a backlog.
    """
    yield "events/s", "worker cores", "broker cores", "Redis cores", "MB/s in", "MB/s out", "on disk a day"
    for load in loads:
        slow, more = min(load, TRICKLE_RATE), max(load - TRICKLE_RATE, 0)
        backlog = more * result.backlog_us / 1e6
        broker = slow * result.trickle_broker_us / 1e6 + backlog * result.broker_share
        incoming = load * result.event_bytes
        outgoing = (slow * result.trickle_written + more * result.written) * result.event_bytes
        yield (
            f"{load:,}",
            _cores(slow * result.trickle_us / 1e6 + backlog),
            _cores(broker * REPLICAS),
            _cores(slow * result.trickle_redis_us / 1e6 + backlog * result.redis_share),
            f"{incoming / 1e6:,.3g}",
            f"{outgoing / 1e6:,.3g}",
            f"{(incoming + outgoing) * REPLICAS * 86_400 / 1e12:,.3g} TB",
        )


def of_slots(result: Constants, slots: Sequence[int] = SLOTS) -> Iterator[tuple[str, ...]]:
    """Memory of the workers, of the pages in Kafka, and how long one worker alone would recover."""
    stores = list(result.recovery_us)
    yield ("slots", "worker memory", "workers of 4 GiB", "events in Kafka", "pages in Kafka", *stores)
    for number in slots:
        memory = number * result.slot_bytes
        workers = max(1, -(-int(memory) // WORKER_BYTES))
        seconds = [number / workers * result.recovery_us[store] / 1e6 for store in stores]
        yield (
            f"{number:,}",
            _bytes(memory),
            f"{workers:,}",
            _bytes(number * result.event_bytes),
            _bytes(number * result.event_bytes * result.page_share),
            *(f"{taken:,.0f} s each" for taken in seconds),
        )


def as_sizes(results: dict[str, Any]) -> dict[str, str]:
    """The three tables for docs/performance.md, by the name of their markers."""
    result = constants(results)
    if result is None:
        return {}
    tables = {"constants": of_constants(result), "loads": of_loads(result), "slots": of_slots(result)}
    return {name: markdown(list(rows)) for name, rows in tables.items()}


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table of Markdown; the first is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _cores(seconds: float) -> str:
    """Cores for so many seconds of processor time a second."""
    return f"{seconds / FULL_AT:,.2g}" if seconds / FULL_AT < 10 else f"{seconds / FULL_AT:,.0f}"


def _bytes(number: float) -> str:
    return f"{number / GIB:,.3g} GiB"


def main() -> None:
    out = Path(__file__).resolve().parents[1] / "docs" / "performance"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events-per-second", type=int, nargs="+", default=LOADS)
    parser.add_argument("--slots", type=int, nargs="+", default=SLOTS)
    parser.add_argument("--out", type=Path, default=out, help="where bench.json is")
    args = parser.parse_args()
    result = constants(json.loads((args.out / "bench.json").read_text()))
    if result is None:
        parser.error(f"{args.out / 'bench.json'} lacks a family; run `make bench` without --only first")
    loads, slots = of_loads(result, args.events_per_second), of_slots(result, args.slots)
    print("\n\n".join(markdown(list(rows)) for rows in (of_constants(result), loads, slots)))


if __name__ == "__main__":
    main()
