"""Where clients connect: in front of the embedded broker, which would acknowledge what it cannot keep.

Requests pass through unchanged, except those that write into the event topic: the event log keeps these
before it appends them to the broker. A connection handles one request at a time, as Kafka's own do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from streamer.embedded.event_log import EventLog
from streamer.kafka.record_batches import BatchRefused, accepted
from streamer.kafka.wire import (
    API_VERSIONS,
    PRODUCE,
    Connection,
    Produce,
    ProduceResult,
    Records,
    Request,
    only_offered_versions,
    read_answers,
    read_frame,
    write_frame,
)

UNKNOWN_PARTITION = 3

logger = logging.getLogger(__name__)


class Proxy:
    """Serves clients' connections.

    Args:
        log: the event log.
        partitions: of the event topic.
        broker_port: loopback port of the broker.
        forwarder: client id of the worker. What it writes into the event topic are copies of events that lie
            in a wrong partition: it makes them again after a restart, so they are not kept.
    """

    def __init__(self, log: EventLog, partitions: int, broker_port: int, forwarder: str) -> None:
        self._log = log
        self._partitions = partitions
        self._broker_port = broker_port
        self._forwarder = forwarder

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it, or the broker, ends the connection."""
        try:
            broker = await Connection.open(self._broker_port)
            try:
                while True:
                    response = await self._response(await read_frame(reader), broker)
                    if response is not None:
                        await write_frame(writer, response)
            finally:
                broker.close()
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client disconnected, or we end
        except ConnectionError as error:
            logger.info("A client's connection ended: %s", error)
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _response(self, frame: bytes, broker: Connection) -> bytes | None:
        request = Request.of(frame)
        if request.api_key == PRODUCE:
            return await self._produced(frame, broker)
        response = await broker.ask(frame)
        if request.api_key == API_VERSIONS:
            return only_offered_versions(response, request.version)
        return response

    async def _produced(self, frame: bytes, broker: Connection) -> bytes | None:
        produce = Produce.of(frame)
        events = [records for topic, records in produce.topics if topic == self._log.topic]
        if not events:
            if produce.acks:
                return await broker.ask(frame)
            await broker.tell(frame)
            return None
        answers: list[tuple[str, Sequence[ProduceResult]]] = []
        if others := [(topic, records) for topic, records in produce.topics if topic != self._log.topic]:
            answers += read_answers(await broker.ask(produce.only(others)), produce.head.version)
        keep = produce.client_id != self._forwarder
        answers += [(self._log.topic, await self._append(records, keep)) for records in events]
        return produce.response(answers) if produce.acks else None

    async def _append(self, records: Records, keep: bool) -> Sequence[ProduceResult]:
        return await asyncio.gather(*(self._answer(partition, data, keep) for partition, data in records))

    async def _answer(self, partition: int, records: bytes | None, keep: bool) -> ProduceResult:
        if not 0 <= partition < self._partitions:
            return ProduceResult(partition, UNKNOWN_PARTITION)
        try:
            batch = accepted(records)
        except BatchRefused as refused:
            return ProduceResult(partition, refused.code)
        return await self._log.append(partition, batch, keep=keep)
