"""The permissions of docs/security.md, as they stand there, given to real servers."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from streamer.settings import Settings

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
    return [
        re.sub(r">([A-Z]+)_PASSWORD", lambda match: f">{passwords[match[1].lower()]}", line) for line in lines
    ]


async def allow(settings: Settings, permissions: list[Permission]) -> None:
    admin = AIOKafkaAdminClient(**settings.kafka_options())
    await admin.start()
    try:
        for p in permissions:
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
