"""One run with very many slots: what a slot takes in memory; how soon a killed worker is current again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from benchmarks.common import Scale, events
from benchmarks.machine import WORKERS, resident_bytes
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment, Site, ready_at
from tests.support.worker_process import WorkerProcess

RECOVERS_IN_SECONDS = {"memory": 55.0, "rocksdb": 50.0}
BYTES_A_SLOT = 700.0


def big_run(scale: Scale, sites: Sites, stores: Sequence[str] = tuple(RECOVERS_IN_SECONDS)) -> Measured:
    """Rows: resident bytes of a slot; seconds until a killed worker is current, for each kind of store."""
    measured = Measured([])
    for store in stores:
        result = _with_store(scale, sites["kafka"], store)
        slots = f"{scale.big_run:,}"
        if store == "memory":
            what = f"resident bytes of a slot in a run of {slots}"
            measured.rows.append(Row(what, [result["bytes_a_slot"]], "bytes", "<=", BYTES_A_SLOT))
        what = f"a killed worker with {slots} slots is current again, store {store}"
        measured.rows.append(Row(what, result["recovered_seconds"], "s", "<=", RECOVERS_IN_SECONDS[store]))
        measured.details[store] = result
    return measured


def _with_store(scale: Scale, site: Site, store: str) -> dict[str, Any]:
    more: Mapping[str, Any] = {} if store == "memory" else {"store": store}
    if store != "memory":
        more = {**more, "data_dir": str(site.directory / f"store-{time.monotonic_ns():x}")}
    with Deployment(site, more=dict(more)) as deployment:
        lines = events(scale.big_run + scale.repeats + 2 * scale.warm_up, runs=1)
        nothing = [_recover_nothing(deployment, islice(lines, 2)) for _ in range(scale.warm_up)]
        expected = deployment.load(islice(lines, scale.big_run))
        worker = deployment.worker(WORKERS)
        try:
            began = ready_at(worker)
            empty = resident_bytes(worker.process.pid)
            seconds = deployment.wait_until_current(expected, worker) - began
            full = resident_bytes(worker.process.pid)
            worker.kill()
            recovered = []
            for line in lines:
                taken, worker = _recover(deployment, line)
                recovered.append(taken)
                recovered_bytes = resident_bytes(worker.process.pid)
                worker.kill()
        finally:
            worker.kill()
    return {
        "slots": scale.big_run,
        "events_per_second": scale.big_run / seconds,
        "bytes_a_slot": (full - empty) / scale.big_run,
        "resident_bytes": full,
        "resident_bytes_empty": empty,
        "resident_bytes_recovered": recovered_bytes,
        "recovered_seconds": recovered,
        "recovered_nothing_seconds": nothing,
    }


def _recover_nothing(deployment: Deployment, lines: Iterator[bytes]) -> float:
    """The same with one slot: the start of Python, and waiting for the killed worker's session to end."""
    for line in lines:
        taken, worker = _recover(deployment, line)
        worker.kill()
    return taken


def _recover(deployment: Deployment, line: bytes) -> tuple[float, WorkerProcess]:
    """Seconds from the start of the next worker until an event that came meanwhile is in Redis; the worker.

    The start of the process, waiting for the session of the killed one to end and reading the tables count.
    """
    expected = deployment.load([line])
    name = f"again-{time.monotonic_ns():x}"
    began = time.time()
    worker = deployment.worker(WORKERS, name=name)
    try:
        return deployment.wait_until_current(expected, worker) - began, worker
    except BaseException:
        worker.kill()
        raise
