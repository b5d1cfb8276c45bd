"""Real servers with accounts, shared by the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from streamer.settings import Settings
from streamer.worker.process import ensure_topics
from tests.security.secured import PASSWORDS, REDIS_PASSWORDS, SecretFiles, Secured, allow, redis_users
from tests.support.certificates import Certificates
from tests.support.secure_servers import ADMIN, SecureKafka, SecureRedis


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def secret_files(tmp_path_factory: pytest.TempPathFactory) -> SecretFiles:
    return SecretFiles(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def secure_redis(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecureRedis]:
    """Redis with TLS and the users of docs/security.md."""
    users = redis_users(REDIS_PASSWORDS)
    server = SecureRedis(tmp_path_factory.mktemp("secure-redis"), certificates, users)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def secured(
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
    secret_files: SecretFiles,
    secure_redis: SecureRedis,
) -> Iterator[Secured]:
    """Apache Kafka with the users of docs/security.md, its topics made by the user `worker`, and Redis."""
    kafka = SecureKafka(tmp_path_factory.mktemp("secure-kafka"), certificates, PASSWORDS)
    result = Secured(kafka, secure_redis, certificates, secret_files)
    try:
        kafka.start()
        asyncio.run(allow(Settings(**result.plain(ADMIN))))
        asyncio.run(ensure_topics(result.settings("worker")))
        yield result
    finally:
        kafka.stop()
