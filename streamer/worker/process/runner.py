"""Runs a worker in this process until SIGTERM, SIGINT or a crash."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.kafka.errors import KafkaConnectionError, KafkaError, broker_problem, is_away
from streamer.redis.connect import BadRedisUrl, check_protocol
from streamer.redis.sink import RedisSink
from streamer.score import PriceTableError
from streamer.settings import Settings
from streamer.worker.faust.app import StreamerApp, session_seconds
from streamer.worker.faust.producer import Producer
from streamer.worker.process.configuration import Configuration
from streamer.worker.process.housekeeping import Housekeeping
from streamer.worker.process.logs import configure_logging
from streamer.worker.process.metrics import Metrics
from streamer.worker.process.probes import AddressUnusable, serve_probes
from streamer.worker.process.topics import TopicMismatch, ensure_topics
from streamer.worker.process.watchdog import CheckedSelector, Watchdog
from streamer.worker.processing.processor import Processor
from streamer.worker.recovery.local_state import StateUnavailable, held_directory, log_name

log = logging.getLogger(__name__)

CONNECT_SECONDS = 60.0
"""How long to wait for the broker at the start."""

CONNECT_RETRY_SECONDS = 1.0
STOP_SECONDS = 30.0
"""How long a stop may take before the process ends anyway: nothing that counts would be lost."""

FLUSH_SECONDS = 10.0
"""How much of that time may go into publishing the queue."""

CLOSE_SECONDS = 5.0

GARBAGE_THRESHOLDS = (50_000, 20, 100)
"""State lives long and holds no cycles: with Python's own thresholds, looking for some in it takes a twelfth
of the time of a worker under load."""

OK, FOUND_WRONG, USED_WRONGLY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, put together and not started."""

    app: StreamerApp
    producer: Producer
    sink: RedisSink
    processor: Processor
    housekeeping: Housekeeping
    metrics: Metrics
    configuration: Configuration


Build = Callable[[Settings, Watchdog, Path | None], Worker]
"""Puts a worker together; the path is a directory for its tables, None for tables in memory."""


def run(settings: Settings, build: Build) -> int:
    """Run a worker; blocks. The exit code: 0 after a signal, 1 after a crash, 2 for wrong settings."""
    configure_logging(settings)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    watchdog = Watchdog(session_seconds(settings))
    watchdog.start()
    loop = asyncio.SelectorEventLoop(CheckedSelector(watchdog))
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_run(settings, build, watchdog))
    except (TopicMismatch, StateUnavailable, BadRedisUrl, PriceTableError, AddressUnusable) as error:
        log.critical("%s", error)
        return USED_WRONGLY
    except (KafkaError, OSError) as error:
        away = is_away(error)
        said = broker_problem(error, settings.bootstrap) if away else error
        log.critical("cannot start with Kafka at %s: %s", settings.bootstrap, said)
        return FOUND_WRONG
    finally:
        _close(loop)
        watchdog.stop()


async def _run(settings: Settings, build: Build, watchdog: Watchdog) -> int:
    stop = _stop_signal()
    await check_protocol(settings.redis, settings.redis_options())
    if not await _until(stop, _ensure_topics(settings)):
        return OK
    with ExitStack() as stack:
        state = None
        if settings.store == "rocksdb":
            state = stack.enter_context(held_directory(settings, await log_name(settings)))
        worker = build(settings, watchdog, state)
        stack.enter_context(serve_probes(worker.metrics, settings.metrics_address))
        return await _work(worker, stop)


async def _work(worker: Worker, stop: asyncio.Event) -> int:
    await worker.producer.start()
    waiting = worker.configuration.wait_until_current(worker.housekeeping.tell_of_waiting)
    if not await _until(stop, waiting):
        await worker.producer.stop()
        await worker.sink.close()
        return OK
    starting = asyncio.ensure_future(worker.app.start())
    housekeeping = asyncio.ensure_future(worker.housekeeping.run())
    crashed = await _wait_for_end(worker, stop, starting)
    hurry = _end_anyway(FOUND_WRONG if crashed else OK)
    log.info("stopping")
    if crashed:
        housekeeping.cancel()
    else:
        async with worker.processor.lock:  # not in the middle of a publication
            housekeeping.cancel()
        await _flush(worker)
    await _stop(worker, starting)
    hurry.cancel()
    return FOUND_WRONG if crashed else OK


async def _wait_for_end(worker: Worker, stop: asyncio.Event, starting: asyncio.Future[None]) -> bool:
    """Wait for a signal or a crash; true if it was a crash."""
    crash: asyncio.Future[Any] = asyncio.ensure_future(worker.app.wait_for_crash())
    ends = [asyncio.ensure_future(stop.wait()), crash]
    await asyncio.wait([*ends, starting], return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is None:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    elif starting.done():
        log.critical("the worker could not start: %s", starting.exception())
    crashed = not stop.is_set()
    for end in ends:
        end.cancel()
    return crashed


async def _flush(worker: Worker) -> None:
    """Publish what a backlog left in the queue, as far as time allows; the next worker publishes the others.

    Nothing rests from then on: batches that Faust still hands on are published at once, or not done.
    """
    try:
        async with worker.processor.lock:
            await worker.processor.flush(seconds=FLUSH_SECONDS)
    except (KafkaError, OSError) as error:
        log.warning("could not publish the last summaries: %s; the next worker will", error)


async def _stop(worker: Worker, starting: asyncio.Future[None]) -> None:
    """Faust first: it finishes the batch at work and commits what is done."""
    worker.app.leave_group_at_the_end()
    await worker.app.stop()
    starting.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await starting
    await worker.producer.stop()
    await worker.sink.close()


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work unless the signal comes first; false if it did."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    return False


async def _ensure_topics(settings: Settings) -> None:
    deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
    while True:
        try:
            return await ensure_topics(settings)
        except KafkaConnectionError as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            log.warning("waiting for Kafka: %s", broker_problem(error, settings.bootstrap))
        await asyncio.sleep(CONNECT_RETRY_SECONDS)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """End what Faust left running, quietly."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_SECONDS))
    asyncio.set_event_loop(None)
    loop.close()


def _end_anyway(code: int) -> threading.Timer:
    """End the process if the stop takes too long."""
    timer = threading.Timer(STOP_SECONDS, os._exit, [code])
    timer.daemon = True
    timer.start()
    return timer
