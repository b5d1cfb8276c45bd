"""What a worker bears: its memory does not grow with the backlog, only with the slots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment

SLOTS = 500
EVENTS = 40_000
EVENT_BYTES = 3_000


def revisions(first: int, count: int) -> Iterator[bytes]:
    """Events of `EVENT_BYTES` bytes that fill the same slots again and again with the same results."""
    for number in range(first, first + count):
        head = (
            b'{"type":"trial_result","run_id":"run %d","task_id":"t%d","resolved":true,"revision":%d,"x":"'
            % (
                number % 3,
                number % SLOTS,
                number // SLOTS,
            )
        )
        yield head + b"x" * (EVENT_BYTES - len(head) - 2) + b'"}'


def resident_bytes(worker: WorkerProcess) -> int:
    pages = Path(f"/proc/{worker.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def growth(deployment: Deployment, first: int, count: int) -> int:
    """Bytes that a worker takes at most, beyond what it has when it is ready, to drain a backlog."""
    deployment.publish(list(revisions(first, count)))
    worker = deployment.worker().start()
    before = peak = resident_bytes(worker)

    def done() -> bool:
        nonlocal peak
        peak = max(peak, resident_bytes(worker))
        return deployment.committed() == first + count

    worker.wait_until(done, "the backlog is drained", 300)
    deployment.wait_until_equal(worker)
    assert worker.stop() == 0
    return peak - before


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="SKIPPED LOUDLY: memory is read from /proc")
def test_a_backlog_four_times_as_long_takes_no_more_memory(on_embedded: Deployment) -> None:
    on_embedded.session = 6.0  # a busy machine may keep a worker from running for long
    few = growth(on_embedded, 0, EVENTS // 4)
    many = growth(on_embedded, EVENTS // 4, EVENTS)
    assert many < few + EVENTS * EVENT_BYTES / 3
