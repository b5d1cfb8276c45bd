"""Real results through both engines: shuffled, three times over, misplaced, with garbage between."""

from __future__ import annotations

import random

import orjson
import pytest

from tests.support.data import shared_data
from tests.support.rows import read_rows, scylla_row_to_event, terminal_bench_row_to_event
from tests.worker.deployment import Deployment

GARBAGE = [
    b"\xff\x00",
    b"{",
    b"[]",
    b'{"type": "trial_result"}',
    b'{"type": "?", "run_id": "r"}',
    b"x" * 2**20,
]
CODES = {"not_json", "not_an_object", "missing_field", "unknown_type"}


def real_events() -> list[bytes]:
    """Terminal-Bench's trials, and ProjectScylla's with the corrections that came later."""
    data = shared_data()
    trials = read_rows(data / "terminal_bench" / "trials.jsonl.gz")
    events = [terminal_bench_row_to_event(row) for row in trials]
    for revision, name in enumerate(("haiku_n3_superseded", "haiku_n3")):
        rows = read_rows(data / "scylla" / f"{name}.jsonl")
        events += [scylla_row_to_event(row, "haiku_n3", revision=revision) for row in rows]
    return [orjson.dumps(event) for event in events]


def equal_to_the_fold(deployment: Deployment) -> None:
    """Send all in disorder; the digests are those of a plain fold, and each bad record is rejected once."""
    events, rng = real_events(), random.Random(11)
    sent = events * 3 + GARBAGE
    rng.shuffle(sent)
    worker = deployment.worker().start()
    deployment.send([rng.randrange(4) for _ in sent], sent)
    deployment.published = events
    deployment.wait_until_equal(worker, seconds=120)
    rejections = [orjson.loads(record.value) for record in deployment.records("trial-rejections")]
    assert len(rejections) == len(GARBAGE)
    assert {rejection["code"] for rejection in rejections} == CODES


@pytest.mark.slow
def test_real_results_in_disorder_equal_the_fold_on_the_embedded_broker(on_embedded: Deployment) -> None:
    equal_to_the_fold(on_embedded)


@pytest.mark.kafka
def test_real_results_in_disorder_equal_the_fold_on_kafka(on_kafka: Deployment) -> None:
    equal_to_the_fold(on_kafka)
