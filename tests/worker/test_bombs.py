"""Records that no worker can hold, or that no summary can: a worker rejects them, and all else goes on."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from tests.support.cli import streamer
from tests.support.events import Event, a_plan, a_trial
from tests.support.packed import MIB, a_batch, a_bomb, send_batches
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import Deployment, trial_events

MOST_RESIDENT_BYTES = 768 * MIB
"""Of a worker: about 150 MiB when it is idle, and some batches of 32 MiB."""


def peak_bytes(worker: WorkerProcess) -> int:
    """The most that the worker has ever held."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak) * 1024


def rejections(deployment: Deployment) -> list[Event]:
    return [orjson.loads(record.value) for record in deployment.records("trial-rejections")]


@pytest.mark.parametrize(("codec", "mebibytes"), [("gzip", 1000), ("lz4", 900), ("zstd", 1000)])
def test_a_record_of_1000_mib_is_a_rejection_and_the_worker_goes_on(
    codec: str, mebibytes: int, on_both: Deployment
) -> None:
    """Packed by lz4, 1,000 MiB exceed the 4 MiB that a broker takes."""
    worker = on_both.worker().start()
    on_both.publish(trial_events(100))
    for partition in range(on_both.partitions):
        bomb = a_bomb(codec, mebibytes * MIB)
        send_batches(on_both.bootstrap, on_both.names.trial_events, partition, [(bomb, 1)])
    on_both.publish(trial_events(200)[100:])
    on_both.wait_until_equal(worker)
    worker.wait_until(lambda: len(rejections(on_both)) == on_both.partitions, "all are rejected")
    for rejected in rejections(on_both):
        place = f"offsets {rejected['source_offset']} to {rejected['source_offset']}"
        assert rejected["code"] == "unreadable_batch"
        assert f"{place} of partition {rejected['source_partition']} unpacks to more" in rejected["message"]
        assert rejected["source_value_base64"] is None
    assert peak_bytes(worker) < MOST_RESIDENT_BYTES
    worker.kill()
    again = on_both.worker().start()
    on_both.publish(trial_events(300)[200:])
    on_both.wait_until_equal(again)


@pytest.mark.slow
def test_4000_records_of_1_mib_that_pack_into_little_are_rejected_in_bounded_memory(
    on_embedded: Deployment,
) -> None:
    worker = on_embedded.worker().start()
    batch = a_batch("zstd", [bytes(MIB)] * 25)
    topic = on_embedded.names.trial_events
    send_batches(on_embedded.bootstrap, topic, 0, [(batch, 25)] * 160)
    on_embedded.publish(trial_events(100))
    on_embedded.wait_until_equal(worker, seconds=240)
    worker.wait_until(lambda: on_embedded.committed() == 4_100, "everything is done", 240)
    assert peak_bytes(worker) < MOST_RESIDENT_BYTES


def poison() -> list[Event]:
    """Events that ended every worker of their partition, each in a run of its own."""
    long = "agent with a long name".ljust(300, ".")
    return [
        a_plan(run_id="plan", tasks=2**53, attempts=4096),
        a_trial(run_id="plan"),
        *(
            a_trial(run_id="modes", task_id=f"t{n}", failure_mode=f"{n}".ljust(2048, "x"))
            for n in range(3_500)
        ),
        *(a_trial(run_id="wide", agent=f"{n:04d}".ljust(128, "n"), cost_usd=1.5) for n in range(7_000)),
        *(a_trial(run_id="long", agent=f"{n:04d}{long}") for n in range(7_000)),
        a_plan(run_id="labels", labels={f"k{n}": "v" * 10_000 for n in range(100)}),
        a_trial(run_id="labels"),
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_poison_of_its_run_is_rejected_and_all_runs_are_current(on_both: Deployment) -> None:
    worker = on_both.worker().start()
    on_both.publish(trial_events(100))
    on_both.publish([json.dumps(event).encode() for event in poison()])
    on_both.publish(trial_events(200)[100:])
    on_both.wait_until_equal(worker, seconds=240)
    # 1 plan, 3,500 failure modes, 7,000 agents, 1 plan with labels
    worker.wait_until(lambda: len(rejections(on_both)) == 10_502, "all are rejected")
    worker.kill()
    again = on_both.worker().start()
    on_both.publish([json.dumps(a_trial(run_id="plan", task_id="later")).encode()])
    on_both.wait_until_equal(again, seconds=240)


def test_the_commands_work_on_a_log_with_an_impossible_plan(on_embedded: Deployment) -> None:
    worker = on_embedded.worker().start()
    events = [
        a_plan(run_id="plan", tasks=2**53, attempts=4096),
        a_trial(run_id="plan"),
        a_trial(run_id="other"),
    ]
    on_embedded.publish([json.dumps(event).encode() for event in events])
    on_embedded.wait_until_equal(worker)
    environment = {f"STREAMER_{name.upper()}": str(value) for name, value in on_embedded._settings().items()}
    verified = streamer("verify", "--all", environment=environment)
    assert verified.returncode == 0, verified.stderr
    folded = streamer("fold", stdin=b"\n".join(on_embedded.published))
    assert b"Traceback" not in folded.stderr
    assert b"1 rejected" in folded.stderr
    rebuilt = streamer("rebuild", environment=environment)
    assert b"Traceback" not in rebuilt.stderr
    assert rebuilt.returncode == 0, rebuilt.stderr
    deleted = streamer("delete", "plan", "--yes", environment=environment)
    assert b"plan: deleted, and gone from Redis" in deleted.stderr


@pytest.mark.parametrize("timestamp", [1_767_225_600_000_000, 253_402_300_800_000])
def test_a_record_timestamp_beyond_the_calendar_ends_no_worker(
    timestamp: int, on_embedded: Deployment
) -> None:
    """Microseconds for milliseconds. Kafka itself refuses it, unless it is configured not to."""
    worker = on_embedded.worker().start()
    event = json.dumps(a_trial(run_id="run 0")).encode()
    batch = a_batch("none", [event], timestamp)
    place = on_embedded.place(event)
    send_batches(on_embedded.bootstrap, on_embedded.names.trial_events, place, [(batch, 1)])
    on_embedded.published.append(event)
    on_embedded.publish(trial_events(100))
    on_embedded.wait_until_equal(worker)
    assert worker.alive
