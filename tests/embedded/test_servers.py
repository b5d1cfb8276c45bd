"""The servers that the tests and `up` start: they answer, they end, they leave nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from streamer.operate.local.processes import kafka_answers, redis_answers
from tests.embedded.writers import offset_after_sending
from tests.support.servers import KafkaServer, RedisServer


@pytest.mark.kafka
async def test_kafka_takes_records(kafka_bootstrap: str, namespace: str) -> None:
    assert await offset_after_sending(kafka_bootstrap, namespace, create=True) == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_keeps_its_data_over_a_kill_and_answers_after_a_pause(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    try:
        server.start()
        assert asyncio.run(offset_after_sending(server.bootstrap, "kept", create=True)) == 0
        server.pause()
        assert not kafka_answers(server.port)
        server.resume()
        assert kafka_answers(server.port)
        server.kill()
        server.start()
        assert asyncio.run(offset_after_sending(server.bootstrap, "kept", create=False)) == 1
    finally:
        server.stop()
    assert not server.child.alive


@pytest.mark.stack
def test_redis_restarts_empty_on_the_same_port(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        server.start()
        with redis.Redis.from_url(server.url) as client:
            client.set("k", "v")
            server.restart_empty()
            assert client.get("k") is None
            client.set("k", "v")
            server.flush()
            assert client.get("k") is None
        server.kill()
        assert not redis_answers(server.port)
    finally:
        server.stop()


@pytest.mark.parametrize("_use", ["first", "second"])
def test_a_test_gets_a_running_and_empty_redis_even_after_one_that_stopped_it(
    redis_server: RedisServer, _use: str
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.dbsize() == 0
        client.set("k", "v")
    redis_server.stop()
