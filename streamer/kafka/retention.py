"""Whether the event topic keeps its events without a time limit: all state can be rebuilt from them."""

from __future__ import annotations

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streamer.kafka.clients import administering
from streamer.kafka.names import Names
from streamer.settings import Settings

FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


async def read_retention(settings: Settings) -> dict[str, str] | None:
    """The settings of `FOR_EVER` that the event topic has otherwise; None: not allowed to know.

    Raises:
        BrokerRefuses, KafkaError: the broker refuses, or cannot be reached.
    """
    if settings.embedded:
        return {}
    topic = Names(settings.namespace).trial_events
    async with administering(settings) as admin:
        [answer] = await admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(FOR_EVER, ""))]
        )
    [(error, _, _, _, rows)] = answer.resources
    if error:
        return None
    found = {row[0]: row[1] for row in rows if row[0] in FOR_EVER}
    return {name: value for name, value in found.items() if value != FOR_EVER[name]}


def what_is_finite(topic: str, found: dict[str, str] | None) -> str | None:
    """The problem with the settings that `read_retention` found, and what to do; None without a problem.

    >>> print(what_is_finite("trial-events", {"retention.ms": "604800000"}))
    topic 'trial-events' loses events: retention.ms=604800000. Set retention.ms=-1: all is folded from it
    """
    if not found:
        return None
    given = ", ".join(f"{name}={value}" for name, value in found.items())
    wanted = ", ".join(f"{name}={FOR_EVER[name]}" for name in found)
    return f"topic {topic!r} loses events: {given}. Set {wanted}: all is folded from it"
