"""One configuration for the whole group: a worker with other prices, profiles or formulas waits.

The fingerprint of the current configuration stands in `streamer-meta`. The first worker of a deployment puts
its own there. Afterwards an operator makes another one current: `streamer config adopt`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from streamer.kafka.errors import KafkaError, TopicUnreadable
from streamer.kafka.meta import CONFIGURATION_KEY, current_configuration, meta_records
from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.worker.faust.producer import Producer, ProducerRecord

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often a worker that waits looks whether it may begin."""


class NotCurrent(Exception):
    """Another configuration is current now."""

    def __init__(self, own: str, current: str) -> None:
        super().__init__(
            f"its prices, profiles or formulas ({own}) are no longer those of the group ({current}). Nothing "
            "more is published with them. Started again, it waits until they are current"
        )


class Configuration:
    """The configuration that this worker computes with, and whether the group has it, too.

    Args:
        settings: where the broker is.
        made_with: fingerprint of this worker's configuration.
        producer: started before anything else is asked for.
    """

    def __init__(self, settings: Settings, made_with: str, producer: Producer) -> None:
        self.made_with = made_with
        self._settings = settings
        self._producer = producer

    async def wait_until_current(self, tell: Callable[[str], Awaitable[None]]) -> None:
        """Return once this configuration is the group's.

        Make it so at once if the group has none, or if the settings say so.

        Args:
            tell: gets a sentence about what is waited for, again and again.
        """
        said = None
        while (current := current_configuration(await meta_records(self._settings))) != self.made_with:
            if current is None or self._settings.adopt_configuration:
                topic = Names(self._settings.namespace).streamer_meta
                await self._producer.write(
                    [ProducerRecord(topic, 0, CONFIGURATION_KEY, self.made_with.encode())]
                )
                continue
            if current != said:
                log.warning("the worker %s", self._waits(current))
            said = current
            await tell(self._waits(current))
            await asyncio.sleep(LOOK_SECONDS)
        if said is not None:
            log.warning("its configuration (%s) is current now: the worker begins", self.made_with)

    def check(self, records: Iterable[Any]) -> None:
        """Raise NotCurrent if the records of `streamer-meta` say that another configuration is current."""
        current = current_configuration(records)
        if current not in (None, self.made_with):
            raise NotCurrent(self.made_with, str(current))

    async def check_now(self) -> None:
        """Read those records and check; later, if the broker is away."""
        with suppress(KafkaError, TopicUnreadable):
            self.check(await meta_records(self._settings))

    def _waits(self, current: str) -> str:
        return (
            f"waits: its prices, profiles or formulas ({self.made_with}) are not those of the group "
            f"({current}). Give it those, or make them current: `streamer config adopt {self.made_with}`"
        )
