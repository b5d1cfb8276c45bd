"""Which configuration is current in a group of workers, and which each of them has."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.client.reader import StateReader
from streamer.kafka.clients import producing
from streamer.kafka.log import read_topic
from streamer.kafka.meta import CONFIGURATION_KEY, current_configuration
from streamer.kafka.names import Names
from streamer.ops.flow import live_workers
from streamer.settings import Settings


@dataclass(frozen=True, slots=True)
class Configurations:
    """Fingerprints of prices, profiles and formulas.

    Attributes:
        current: the group's; None: no worker has ever begun.
        workers: live workers, by id.
    """

    current: str | None
    workers: dict[str, str]


def read_configurations(settings: Settings) -> Configurations:
    """Ask the broker which is current, and Redis which the live workers have.

    Raises:
        TopicMissing, KafkaError: the broker cannot say.
        RedisUnavailable: Redis cannot.
    """
    with StateReader(settings) as reader:
        live = live_workers(reader)
    workers = {w.worker_id: str(w.status["made_with"]) for w in live if "made_with" in w.status}
    return Configurations(
        current_configuration(read_topic(settings, Names(settings.namespace).streamer_meta)), workers
    )


async def adopt(settings: Settings, made_with: str) -> None:
    """Make a configuration current: workers that have another end, those that wait for it begin."""
    topic = Names(settings.namespace).streamer_meta
    async with producing(settings) as producer:
        await producer.send_and_wait(topic, made_with.encode(), key=CONFIGURATION_KEY, partition=0)
