"""Topics: created as they have to be, and never silently different."""

from __future__ import annotations

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streamer.settings import Settings
from streamer.worker.process import TopicMismatch, ensure_topics, plan


async def test_another_partition_count_says_what_to_do(embedded_broker: str, namespace: str) -> None:
    settings = Settings(bootstrap=embedded_broker, namespace=namespace, partitions=3, embedded=True)
    await ensure_topics(settings)
    with pytest.raises(TopicMismatch, match=r"have 3 partitions; the settings say 5.*STREAMER_PARTITIONS=3"):
        await ensure_topics(settings.model_copy(update={"partitions": 5}))


@pytest.mark.kafka
async def test_events_are_kept_for_ever_and_tables_compacted(kafka_bootstrap: str, namespace: str) -> None:
    settings = Settings(bootstrap=kafka_bootstrap, namespace=namespace, partitions=2)
    await ensure_topics(settings)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    result = {}
    for topic in plan(settings):
        [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic.name)])
        result[topic.name] = {row[0]: row[1] for row in answer.resources[0][4]}
    await admin.close()
    for topic in plan(settings):
        assert topic.config.items() <= result[topic.name].items()
    assert result[f"{namespace}.trial-events"]["retention.ms"] == "-1"
    assert result[f"{namespace}.trials-changelog"]["cleanup.policy"] == "compact"
