"""Servers and names that tests of several folders use."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from streamer.embedded.broker import Broker
from tests.support.servers import KafkaServer, RedisServer


@pytest.fixture(scope="session", autouse=True)
def no_running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests never find the stack that a developer runs on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMER_DISCOVERY", str(tmp_path_factory.mktemp("discovery") / "running.json"))
        yield


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real Apache Kafka: KAFKA_BOOTSTRAP if set, else one started for this session.

    Tests that use it carry the marker `kafka`.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP")
    if given:
        yield given
        return
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        yield server.bootstrap
    finally:
        server.stop()


@pytest.fixture(scope="session")
def session_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis that `redis_server` lends to one test after the other."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def redis_server(session_redis: RedisServer) -> RedisServer:
    """A running, empty Redis; a test may stop, kill or flush it."""
    if session_redis.child.alive:
        session_redis.flush()
    else:
        session_redis.start()
    return session_redis


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[str]:
    """Address of a running embedded broker, shared by the session: use `namespace`."""
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def namespace() -> str:
    """A namespace of this test alone, so that tests can share servers."""
    return f"t{uuid.uuid4().hex[:12]}"
