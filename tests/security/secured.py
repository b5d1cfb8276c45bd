"""A deployment that lets in only who may, by the permissions of docs/security.md."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from streamer.settings import Settings
from tests.support.certificates import Certificates
from tests.support.secure_servers import ADMIN, SecureKafka, SecureRedis

USERS = (ADMIN, "worker", "publisher", "reader", "viewer", "operator", "nobody")
PASSWORDS = {user: f"hidden-{user}-4f1c9b" for user in USERS}
REDIS_PASSWORDS = {user: f"concealed/{user}@7d#?%2e" for user in ("worker", "reader")}
"""Characters that mean something in URLs."""

WRONG = {"sasl_password_file": None, "sasl_password": "not-the-password"}
WRONG_FOR_REDIS = {"redis_password_file": None, "redis_password": "not-the-password"}

SECRETS = (*PASSWORDS.values(), *REDIS_PASSWORDS.values(), "not-the-password")
PARTITIONS = 2


@dataclass
class SecretFiles:
    directory: Path

    def __call__(self, name: str, secret: str) -> Path:
        """The file that holds the secret, with the line end that editors leave."""
        file = self.directory / f"{name}.secret"
        file.write_text(f"{secret}\n")
        return file


@dataclass
class Secured:
    kafka: SecureKafka
    redis: SecureRedis
    certificates: Certificates
    files: SecretFiles

    def given(self, user: str, **more: Any) -> dict[str, Any]:
        """Settings of a user, passwords in files; `more` is on top, what is None there is left out."""
        redis_user = user if user in REDIS_PASSWORDS else "reader"
        given = {
            "bootstrap": self.kafka.at("SCRAM"),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user,
            "sasl_password_file": self.files(user, PASSWORDS[user]),
            "ssl_cafile": self.certificates.ca,
            "redis": self.redis.url(redis_user),
            "redis_password_file": self.files(f"redis-{redis_user}", REDIS_PASSWORDS[redis_user]),
            "redis_cafile": self.certificates.ca,
            "partitions": PARTITIONS,
            "session_timeout_seconds": 6,
        } | more
        return {name: value for name, value in given.items() if value is not None}

    def plain(self, user: str, **more: Any) -> dict[str, Any]:
        plain = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_password_file": None}
        at = self.kafka.at("PLAIN")
        return self.given(user, bootstrap=at, sasl_password=PASSWORDS[user], **plain, **more)

    def settings(self, user: str, **more: Any) -> Settings:
        return Settings(**self.given(user, **more))


def environment(given: dict[str, Any]) -> dict[str, str]:
    return {f"STREAMER_{name.upper()}": str(value) for name, value in given.items() if value is not None}


# -----------------------------------------------------------------------------
# The permissions of docs/security.md, as they stand there, given to real servers.


PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TOPIC, GROUP = 2, 3
LITERAL, ALLOW, ANY_HOST = 3, 3, "*"
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
"""Numbers of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Permission:
    user: str
    operation: str
    kind: int
    name: str


def kafka_permissions() -> list[Permission]:
    parser = argparse.ArgumentParser(exit_on_error=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    for option in ("--operation", "--topic", "--group"):
        parser.add_argument(option, action="append", default=[])
    return [
        permission
        for command in re.findall(r"^kafka-acls\.sh \$ADMIN (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
        for permission in _permissions(parser.parse_args(shlex.split(command)))
    ]


def redis_users(passwords: Mapping[str, str]) -> list[str]:
    """The lines of the ACL file of the page, with these passwords in it."""
    lines = re.findall(r"^user .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    secret = re.compile(r">([A-Z]+)_PASSWORD")
    return [secret.sub(lambda match: f">{passwords[match[1].lower()]}", line) for line in lines]


async def allow(settings: Settings) -> None:
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        for p in kafka_permissions():
            user, operation = f"User:{p.user}", OPERATIONS[p.operation]
            request = CreateAclsRequest(p.kind, p.name, LITERAL, user, ANY_HOST, operation, ALLOW)
            response = await admin._send_request(request)
            assert [code for code, _ in response.creation_responses] == [0], (p, response)
    finally:
        await admin.close()


def _permissions(command: argparse.Namespace) -> Iterator[Permission]:
    user = command.allow_principal.removeprefix("User:")
    for operation in command.operation:
        for kind, names in ((TOPIC, command.topic), (GROUP, command.group)):
            yield from (Permission(user, operation, kind, name) for name in names)
