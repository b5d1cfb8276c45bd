"""Topics are created once, and one that the brokers have not heard of yet is waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from streamer.storage import kafka as module
from streamer.storage.kafka import create_topic, partition_count


class Admin:
    """Answers with these error codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def create_topics(self, topics: list[Any]) -> Any:
        return SimpleNamespace(topic_errors=[(topics[0].name, self.codes.pop(0), "said so")])

    async def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        code = self.codes.pop(0)
        return [{"error_code": code, "partitions": [] if code else [1, 2, 3]}]


@pytest.mark.parametrize("code", [0, TopicAlreadyExistsError.errno])
async def test_a_topic_that_somebody_else_created_is_as_good(code: int) -> None:
    admin: Any = Admin(code)
    await create_topic(admin, "t", 3, 1, {})
    assert admin.codes == []


async def test_a_refusal_names_the_topic_and_the_reason() -> None:
    admin: Any = Admin(TopicAuthorizationFailedError.errno)
    with pytest.raises(TopicAuthorizationFailedError, match="cannot create topic 't': said so"):
        await create_topic(admin, "t", 3, 1, {})


async def test_a_topic_that_was_just_created_is_waited_for() -> None:
    admin: Any = Admin(UnknownTopicOrPartitionError.errno, UnknownTopicOrPartitionError.errno, 0)
    assert await partition_count(admin, "t") == 3


async def test_a_topic_that_never_comes_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROPAGATION_SECONDS", -1.0)
    admin: Any = Admin(UnknownTopicOrPartitionError.errno)
    with pytest.raises(KafkaError, match="cannot describe topic 't'"):
        await partition_count(admin, "t")
