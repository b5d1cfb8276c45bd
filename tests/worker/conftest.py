"""Deployments on the embedded broker and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.layers import ENGINES
from tests.support.servers import KafkaServer, RedisServer
from tests.worker.deployment import Deployment


@pytest.fixture
def on_embedded(
    tmp_path: Path, embedded_broker: str, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    with Deployment(tmp_path, embedded_broker, redis_server.url, namespace, embedded=True) as deployment:
        yield deployment


@pytest.fixture
def on_kafka(
    tmp_path: Path, kafka_bootstrap: str, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    with Deployment(tmp_path, kafka_bootstrap, redis_server.url, namespace, embedded=False) as deployment:
        yield deployment


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[KafkaServer]:
    """An Apache Kafka of this test alone, to be maltreated, or its files to be read."""
    (tmp_path / "kafka").mkdir()
    server = KafkaServer(tmp_path / "kafka")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def on_own_kafka(
    tmp_path: Path, own_kafka: KafkaServer, redis_server: RedisServer, namespace: str
) -> Iterator[Deployment]:
    with Deployment(tmp_path, own_kafka.bootstrap, redis_server.url, namespace, embedded=False) as deployment:
        yield deployment


@pytest.fixture(params=ENGINES)
def on_both(request: pytest.FixtureRequest) -> Deployment:
    result: Deployment = request.getfixturevalue(f"on_{request.param}")
    return result
