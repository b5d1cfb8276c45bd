"""What an earlier version left on the disk in mid-batch goes on with this one, and is not folded again."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from streamer.folding.prices import PriceTable
from streamer.folding.score import made_with
from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import wait_for
from tests.worker.deployment import Deployment, trial_events
from tests.worker.record_volume import NAMESPACE, RUNS

RECORDED = Path(__file__).with_name("recorded")


@pytest.fixture
def left_behind(commit: str, tmp_path: Path, redis_server: RedisServer) -> Iterator[Deployment]:
    """A deployment on the volume of a commit, with what Redis held."""
    with tarfile.open(RECORDED / f"{commit}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        for key, value in json.loads((tmp_path / "redis.json").read_text()).items():
            if isinstance(value, str):
                client.set(key, value)
            elif isinstance(value, dict):
                client.hset(key, mapping=value)
            else:
                client.zadd(key, dict(value))
    server = KafkaServer(tmp_path / "kafka")
    server.start()
    deployment = Deployment(tmp_path, server.bootstrap, redis_server.url, NAMESPACE, embedded=False)
    deployment.published = (tmp_path / "events.ndjson").read_bytes().splitlines()
    yield deployment
    deployment.kill_workers()
    server.stop()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("commit", ["a3e59d61", "d70dda50"])
def test_a_volume_of_an_earlier_version_left_in_mid_batch_goes_on(left_behind: Deployment) -> None:
    wait_for(left_behind.committed, "the broker has read its offsets")
    assert left_behind.committed() < len(left_behind.published)
    left_behind.make_current(made_with(PriceTable.default()))  # as `streamer config adopt`
    worker = left_behind.worker().start()
    left_behind.wait_until_equal(worker)
    left_behind.publish(trial_events(200, runs=RUNS, seed=99))
    left_behind.wait_until_equal(worker)
    everything = len(left_behind.published)
    worker.wait_until(lambda: left_behind.committed() == everything, "all offsets committed")
    assert worker.stop() == 0
    assert not re.search("fold(ed|ing) .*again", worker.output)
